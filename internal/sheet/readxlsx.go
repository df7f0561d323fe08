package sheet

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// What a workbook may have. Its sizes on disk say nothing about what it unpacks to.
const (
	unpackRatio    = 16 // of the limit in bytes
	maxParts       = 1000
	maxReadColumns = 256
	// cellsPerRow bounds the cells, blank ones too, of as many rows as the limits allow.
	cellsPerRow = 64
	// maxCellText is how many characters spreadsheets allow in a cell.
	maxCellText = 32_767
)

var (
	errDamaged  = unreadable("The workbook is damaged. Open it in a spreadsheet, and save it again as XLSX.")
	errUnpacked = unreadable("The workbook is too large when unpacked. Copy the list to a new workbook, or save it as CSV.")
)

// workbook is an XLSX file that is being read.
type workbook struct {
	parts  map[string]*zip.File
	limits Limits
	left   int64 // how many bytes may still be unpacked, or copied to a cell
	shared []string
	dates  []bool // whether a cell with that style is a date
	from   int    // the serial of 1970-01-01
}

// readXLSX reads the first visible sheet of a workbook.
func readXLSX(content []byte, limits Limits) ([]Row, error) {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, errDamaged
	}
	if len(archive.File) > maxParts {
		return nil, errUnpacked
	}
	w := &workbook{parts: map[string]*zip.File{}, limits: limits, left: int64(limits.Bytes) * unpackRatio}
	for _, part := range archive.File {
		if part.Flags&1 != 0 {
			return nil, errPassword
		}
		w.parts[part.Name] = part
	}
	place, err := w.open()
	if err != nil {
		return nil, err
	}
	return w.rows(place)
}

// open reads all but the rows, and returns the part of the first visible sheet.
func (w *workbook) open() (place string, err error) {
	var main string
	related, err := w.relations("", "_rels/.rels")
	if err != nil {
		return "", err
	}
	for _, r := range related {
		if r.is("officeDocument") {
			main = r.Target
		}
	}
	switch {
	case w.parts["mimetype"] != nil && w.parts["content.xml"] != nil:
		return "", unreadable("The file is an OpenDocument file. Save it as XLSX or as CSV.")
	case strings.HasSuffix(main, ".bin"):
		return "", unreadable("The file is a binary workbook (.xlsb). Save it as XLSX.")
	case w.parts[main] == nil || path.Base(main) != "workbook.xml" && !strings.HasPrefix(main, "xl/"):
		return "", unreadable("The file is no workbook. Save the list as XLSX or as CSV.")
	}
	var book struct {
		Properties struct {
			From1904 string `xml:"date1904,attr"`
		} `xml:"workbookPr"`
		Sheets []struct {
			Relation string `xml:"id,attr"`
			State    string `xml:"state,attr"`
		} `xml:"sheets>sheet"`
	}
	if err := w.unmarshal(main, &book); err != nil {
		return "", err
	}
	w.from = 25_569
	if on, _ := strconv.ParseBool(book.Properties.From1904); on {
		w.from = 24_107
	}
	folder, name := path.Split(main)
	if related, err = w.relations(folder, folder+"_rels/"+name+".rels"); err != nil {
		return "", err
	}
	sheets := map[string]string{}
	for id, r := range related {
		switch {
		case r.is("worksheet"):
			sheets[id] = r.Target
		case r.is("sharedStrings"):
			err = w.readShared(r.Target)
		case r.is("styles"):
			err = w.readStyles(r.Target)
		}
		if err != nil {
			return "", err
		}
	}
	for _, s := range book.Sheets {
		if target := sheets[s.Relation]; target != "" && (s.State == "" || s.State == "visible") {
			return target, nil
		}
	}
	return "", unreadable("The workbook has no visible sheet.")
}

// relation is a reference from one part to another.
type relation struct {
	ID     string `xml:"Id,attr"`
	Type   string `xml:"Type,attr"`
	Target string `xml:"Target,attr"`
}

func (r relation) is(kind string) bool { return strings.HasSuffix(r.Type, "/"+kind) }

// relations reads the references from a part in a folder, by their id.
func (w *workbook) relations(folder, name string) (map[string]relation, error) {
	if w.parts[name] == nil {
		return nil, nil
	}
	var file struct {
		Relations []relation `xml:"Relationship"`
	}
	if err := w.unmarshal(name, &file); err != nil {
		return nil, err
	}
	found := map[string]relation{}
	for _, r := range file.Relations {
		if absolute, is := strings.CutPrefix(r.Target, "/"); is {
			r.Target = path.Clean(absolute)
		} else {
			r.Target = path.Join(folder, r.Target)
		}
		found[r.ID] = r
	}
	return found, nil
}

// Read counts what is unpacked.
func (b budget) Read(p []byte) (int, error) {
	if b.w.left <= 0 {
		return 0, errUnpacked
	}
	n, err := b.part.Read(p[:min(int64(len(p)), b.w.left)])
	b.w.left -= int64(n)
	return n, err
}

// budget reads a part within the bytes that are left.
type budget struct {
	w    *workbook
	part io.Reader
}

// read calls use with a part of the workbook. Every error but an Unreadable means that the
// workbook is damaged.
func (w *workbook) read(name string, use func(*xml.Decoder) error) error {
	part := w.parts[name]
	if part == nil {
		return errDamaged
	}
	opened, err := part.Open()
	if err != nil {
		return errDamaged
	}
	defer func() { _ = opened.Close() }()
	err = use(xml.NewDecoder(budget{w, opened}))
	if told := (*Unreadable)(nil); err != nil && !errors.As(err, &told) {
		return errDamaged
	}
	return err
}

func (w *workbook) unmarshal(name string, to any) error {
	return w.read(name, func(d *xml.Decoder) error { return d.Decode(to) })
}

// each calls use with every element of a name in a part.
func (w *workbook) each(part string, use func(d *xml.Decoder, element xml.StartElement) error) error {
	return w.read(part, func(d *xml.Decoder) error {
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if element, starts := token.(xml.StartElement); starts {
				if err := use(d, element); err != nil {
					return err
				}
			}
		}
	})
}

// richText is a text, or runs of text with different fonts.
type richText struct {
	Text string `xml:"t"`
	Runs []struct {
		Text string `xml:"t"`
	} `xml:"r"`
}

func (t richText) String() string {
	var text strings.Builder
	text.WriteString(t.Text)
	for _, run := range t.Runs {
		text.WriteString(run.Text)
	}
	return unescaped(text.String())
}

// unescaped undoes _x000D_, by which workbooks write characters that XML does not allow.
func unescaped(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	return escapedCharacter.ReplaceAllStringFunc(text, func(code string) string {
		n, _ := strconv.ParseUint(code[2:6], 16, 32)
		return string(rune(n))
	})
}

var escapedCharacter = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

func (w *workbook) readShared(part string) error {
	return w.each(part, func(d *xml.Decoder, element xml.StartElement) error {
		if element.Name.Local != "si" {
			return nil
		}
		if len(w.shared) > (w.limits.Rows+1)*maxReadColumns {
			return errUnpacked
		}
		var text richText
		if err := d.DecodeElement(&text, &element); err != nil {
			return err
		}
		w.shared = append(w.shared, text.String())
		return nil
	})
}

// readStyles finds out which styles are those of dates.
func (w *workbook) readStyles(part string) error {
	var file struct {
		Formats []struct {
			ID   int    `xml:"numFmtId,attr"`
			Code string `xml:"formatCode,attr"`
		} `xml:"numFmts>numFmt"`
		Styles []struct {
			Format int `xml:"numFmtId,attr"`
		} `xml:"cellXfs>xf"`
	}
	if err := w.unmarshal(part, &file); err != nil {
		return err
	}
	codes := map[int]string{}
	for _, format := range file.Formats {
		codes[format.ID] = format.Code
	}
	for _, style := range file.Styles {
		code, own := codes[style.Format]
		w.dates = append(w.dates, own && isDateCode(code) || !own && isDateFormat(style.Format))
	}
	return nil
}
