package look

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// What people see of a template comes from a message file or from data: no text stands in
// the template itself.
func TestTemplates_HaveNoTextOfTheirOwn(t *testing.T) {
	complaints, templates := ownTexts(t, os.DirFS(module))
	for _, complaint := range complaints {
		t.Error(complaint)
	}
	if templates < 70 {
		t.Errorf("found %d templates: the search looks in the wrong place", templates)
	}
}

func TestOwnTexts_FindsEachKind(t *testing.T) {
	for text, want := range map[string]string{
		`<p>Unsaid {{t "Known"}}</p>`:                             "Unsaid",
		`<p title="Unsaid">{{.Name}}</p>`:                         "Unsaid",
		`<input placeholder="{{if .X}}Unsaid{{end}}">`:            "Unsaid",
		`{{template "button" (dict "text" "Unsaid")}}`:            "Unsaid",
		`{{template "field" (dict "placeholder" "web:asha")}}`:    "web:asha",
		`<p>अनकहा</p>`:                                            "अनकहा",
		`<p class="note">{{t "Known"}} · <b>{{.Count}}</b>…</p>`:  "",
		`{{template "filters" (dict "action" "/console/audit")}}`: "",
		`{{/* Unsaid */}}<script>unsaid()</script>`:               "",
	} {
		got, _ := ownTexts(t, fstest.MapFS{"internal/web/panel/pages/a.html": {Data: []byte(text)}})
		if found := strings.Join(got, " "); want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("%s: found %q; want %q", text, found, want)
		}
	}
}

var (
	templateAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	unseenElement  = regexp.MustCompile(`(?s)<(script|style)\b.*?</(script|style)>|<!--.*?-->|<!doctype[^>]*>`)
	tag            = regexp.MustCompile(`(?s)<[^>]*>`)
	// unseenAttribute is one that a template defines apart from its element.
	unseenAttribute = regexp.MustCompile(`\saria-(invalid|describedby)="[^"]*"`)
	entity          = regexp.MustCompile(`&[a-z]+;`)
	shownAttribute  = regexp.MustCompile(`\s(title|aria-label|alt|placeholder)="([^"]*)"`)
	shownArgument   = regexp.MustCompile(`"(text|title|label|hint|placeholder|lead|note|backText|linkText|prefix|suffix)" "([^"]*)"`)
	letters         = regexp.MustCompile(`[\p{L}][^\s<]*`)
)

// brand are the words that pages have in every language.
var brand = map[string]bool{"Coax": true, "हिन्दी": true, "English": true, "CSV": true, "XLSX": true, "IST": true, "Ctrl": true, "K": true, "req_…": true}

// ownTexts finds the texts of templates that no message file can have. The reference and
// the guide of the API are in English only; the offline page has both languages.
func ownTexts(t *testing.T, tree fs.FS) (complaints []string, templates int) {
	t.Helper()
	err := fs.WalkDir(tree, "internal/web", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".html" || strings.Contains(file, "/testdata/") ||
			strings.Contains(file, "/reference/") || path.Base(file) == "docs.html" || path.Base(file) == "offline.html" {
			return err
		}
		templates++
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		for _, argument := range shownArgument.FindAllStringSubmatch(string(text), -1) {
			if letters.MatchString(argument[2]) && !brand[argument[2]] {
				complaints = append(complaints, file+": "+argument[0]+" is not translated")
			}
		}
		seen := unseenElement.ReplaceAllString(templateAction.ReplaceAllString(string(text), ""), "")
		for _, attribute := range shownAttribute.FindAllStringSubmatch(seen, -1) {
			if letters.MatchString(attribute[2]) && !brand[attribute[2]] {
				complaints = append(complaints, file+":"+attribute[0]+" is not translated")
			}
		}
		for _, word := range letters.FindAllString(entity.ReplaceAllString(tag.ReplaceAllString(unseenAttribute.ReplaceAllString(seen, ""), " "), ""), -1) {
			if !brand[word] {
				complaints = append(complaints, file+": "+word+" is not translated")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return complaints, templates
}
