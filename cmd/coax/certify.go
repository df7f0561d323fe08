package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/certify"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

// copies is how many copies of a program certify runs at once.
const copies = 8

func (a *app) certifyCommand() *cobra.Command {
	var only []string
	var list bool
	var file, handedIn string
	command := &cobra.Command{
		Use:   "certify [--only STORY] [--list] [--json] [--html FILE] [--verify FILE] -- COMMAND ARGS…",
		Short: "Find out whether your program calls the API correctly",
		Long: `Find out whether your program calls the API correctly: what it does when an answer is
lost, the clock is off, an outcome is pending, a certificate is wrong. It takes half a minute,
and up to three if the program is often silent. It needs no network: a service with a
simulated provider runs in this process.

COMMAND is started, up to eight times at once, and reads one order per line on its standard
input:

  {"id":"…","base_url":"…","ca_cert":"PATH","api_key":"…","api_secret":"…",
   "operation":"activate|renew|advance-renew","idempotency_key":"…","body":{…}}

It carries the order out and answers it once, with a line on its standard output:

  {"id":"…","outcome":"success|failed|pending","transaction_id":"…","code":"…"}

"failed" means that nothing was charged and the attempt is over; "pending" that it may have
been carried out, or may still be. After 202 the program waits for the outcome; it has 45
seconds for an order. With a success transaction_id is required. code is the service's code
of a failure. "charged" is optional: the amount that the program books, as text ("349.00") or
as a number. Without it the story about amounts cannot check them, and says so. The body is sent as it is given. Standard output is for outcomes only; standard error is free,
but for secrets.

The end of the input ends the program. It is killed in some stories, started again, and given
the open orders once more. The README of each SDK has such a program.

--html writes a page to hand in, with a digest of its data; the digest is also printed and in
the JSON. --verify FILE compares a page with its digest: that finds a page that was changed,
not one that was invented. Who wants proof runs coax certify with the program again.

The exit status is 0 if all stories passed or the page is as it was written, 1 if not, 2 for
wrong use.`,
		Example: `  coax certify -- php my-adapter.php
  coax certify --only lost-answer,clock-ahead --html report.html -- ./my-adapter
  coax certify --verify report.html
  coax certify --list`,
		RunE: func(c *cobra.Command, args []string) error {
			if handedIn != "" {
				return a.verifyReport(handedIn)
			}
			stories, err := certify.Stories()
			if err != nil {
				return err
			}
			if stories, err = choose(stories, only); err != nil {
				return err
			}
			if list {
				return a.listStories(stories)
			}
			if len(args) == 0 {
				return usage("which program? Give it after --: coax certify -- COMMAND ARGS…")
			}
			return a.certify(c, stories, args, file)
		},
	}
	command.Flags().StringSliceVar(&only, "only", nil, "play this `STORY` only, or these, separated by commas")
	command.Flags().BoolVar(&list, "list", false, "explain the stories and play none")
	command.Flags().BoolVar(&a.asJSON, "json", false, "print the results as JSON")
	command.Flags().StringVar(&file, "html", "", "write a report to hand in to this `FILE`")
	command.Flags().StringVar(&handedIn, "verify", "", "compare the report in this `FILE` with its digest, and play no story")
	_ = command.RegisterFlagCompletionFunc("only", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		stories, _ := certify.Stories()
		for _, s := range stories {
			names = append(names, s.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	return command
}

// choose returns the stories with these names, or all if there are none.
func choose(stories []certify.Story, only []string) ([]certify.Story, error) {
	if len(only) == 0 {
		return stories, nil
	}
	var chosen []certify.Story
	for _, name := range only {
		i := slices.IndexFunc(stories, func(s certify.Story) bool { return s.Name == name })
		if i < 0 {
			return nil, usage("there is no story %q; coax certify --list names them", name)
		}
		chosen = append(chosen, stories[i])
	}
	return chosen, nil
}

func (a *app) listStories(stories []certify.Story) error {
	if a.asJSON {
		type entry struct {
			Name  string `json:"name"`
			About string `json:"about"`
			Costs string `json:"costs"`
			Guide string `json:"guide"`
			Page  string `json:"page"`
		}
		list := []entry{}
		for _, s := range stories {
			list = append(list, entry{s.Name, s.About, s.Costs, s.Guide, s.Page()})
		}
		return json.NewEncoder(a.out).Encode(list)
	}
	for _, s := range stories {
		fmt.Fprintf(a.out, "%s\n  %s\n  Consequence of a mistake: %s\n  Read: %s (%s)\n\n", s.Name, s.About, s.Costs, s.Guide, s.Page())
	}
	_, err := fmt.Fprintf(a.out, "%d stories\n", len(stories))
	return err
}

func (a *app) certify(c *cobra.Command, stories []certify.Story, program []string, file string) error {
	if file != "" {
		// A report that cannot be written is better known before the run.
		if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
			return usage("--html: there is no folder %s", filepath.Dir(file))
		}
	}
	began := time.Now()
	results, err := certify.Run(c.Context(), certify.Options{
		Command: program, Environ: a.environ, Stories: stories, Copies: copies,
		Progress: func(done int, r certify.Result) {
			verdict := "passed"
			if !r.Passed {
				verdict = "FAILED: " + r.Fault
			}
			fmt.Fprintf(a.err, "%3d/%d  %-28s %5.1f s  %s\n", done, len(stories), r.Name, r.Seconds, verdict)
		},
	})
	var notStarted *certify.CommandError
	if errors.As(err, &notStarted) {
		return usage("%v", notStarted)
	}
	if err != nil && c.Context().Err() != nil {
		return errors.New("interrupted; there is no report")
	}
	if err != nil {
		return err
	}
	report, err := certify.NewReport(results, server.Version(), began, program)
	if err != nil {
		return err
	}
	if file != "" {
		page, err := report.HTML()
		if err == nil {
			err = os.WriteFile(file, page, 0o644)
		}
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if a.asJSON {
		err = json.NewEncoder(a.out).Encode(report)
	} else {
		err = a.printReport(report, time.Since(began))
	}
	if err != nil {
		return err
	}
	if report.Failed > 0 {
		return fmt.Errorf("%d of %d stories failed", report.Failed, len(stories))
	}
	return nil
}

func (a *app) printReport(r certify.Report, took time.Duration) error {
	for _, s := range r.Stories {
		if s.Passed && s.Unchecked != "" {
			fmt.Fprintf(a.out, "\n%s: passed, but not all of it was checked\n  %s\n", s.Name, s.Unchecked)
		}
		if s.Passed {
			continue
		}
		fmt.Fprintf(a.out, "\n%s: %s\n  %s\n  %s\n", s.Name, strings.ToUpper(s.Fault), s.About, s.Explanation)
		for _, more := range s.More {
			fmt.Fprintf(a.out, "  Also %s\n", more)
		}
		fmt.Fprintf(a.out, "  Expected:    %s\n  Happened:    %s\n  Consequence: %s\n  Read:        %s (%s)\n", s.Expected, strings.Join(s.Happened, "; "), s.Costs, s.Guide, s.Page)
		for i, request := range s.Requests {
			if i == 4 {
				fmt.Fprintf(a.out, "    … %d more requests; --json and --html have them\n", len(s.Requests)-i)
				break
			}
			first, _, _ := strings.Cut(request.Text, "\r\n")
			answer, _, _ := strings.Cut(request.Answer, "\n")
			fmt.Fprintf(a.out, "    %7.2f s  %s → %s\n", request.At, first, answer)
		}
	}
	_, err := fmt.Fprintf(a.out, "\n%d passed, %d failed, in %.0f s\ndigest %s\n", r.Passed, r.Failed, took.Seconds(), r.Digest)
	return err
}

// verifyReport compares a page that was handed in with its digest.
func (a *app) verifyReport(file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return usage("--verify: %v", err)
	}
	r, compared, err := certify.Verify(page, server.Version())
	if errors.Is(err, certify.ErrNoReport) {
		return usage("--verify: %s: %v", file, err)
	}
	fmt.Fprintf(a.out, "%d passed, %d failed\nprogram  %s\ndate     %s\ncoax     %s\ndigest   %s\n", r.Passed, r.Failed, r.Command, r.Date, r.Version, r.Digest)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	shows := "The page agrees with its data and its digest."
	if !compared {
		shows = "The page's data agrees with its digest. What else it shows was not compared: another version of coax wrote it."
	}
	_, err = fmt.Fprintf(a.out, "%s That does not prove who wrote it. For proof, run coax certify with the program again.\n", shows)
	return err
}
