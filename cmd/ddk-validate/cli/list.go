package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/report"
	"ciddk/validate/req"
)

type listCmd struct {
	Case     patterns `help:"Only cases whose id matches." placeholder:"GLOB"`
	JSON     bool     `name:"json" help:"Print JSON: the cases, and every requirement with its cases."`
	Peer     bool     `help:"The cases of the command wire, in place of those for drivers."`
	Coverage bool     `help:"Print every requirement with its cases, or the reason why it has none."`
	Untested bool     `help:"Print the requirements that lack a case, a check of their own or a mutant."`
	Table    bool     `help:"Print the coverage as a Markdown table, for documentation."`
}

// listedCase is a case in the JSON output.
type listedCase struct {
	ID           string           `json:"id"`
	Title        string           `json:"title"`
	Feature      validate.Feature `json:"feature"`
	Requirements []string         `json:"requirements"`
	Level        req.Level        `json:"level"`
	Section      string           `json:"section"`
	Needs        []string         `json:"needs,omitempty"`
}

// Run executes the command.
func (l *listCmd) Run(a *app) error {
	if l.Peer {
		a = a.of(a.Config.Peer.Name)
	}
	cases, err := a.catalog.Select(validate.Selection{Cases: l.Case})
	if err != nil {
		return err
	}
	cov := a.catalog.Coverage()
	switch {
	case l.JSON:
		var out struct {
			Cases        []listedCase        `json:"cases"`
			Requirements []validate.Coverage `json:"requirements"`
		}
		out.Requirements = cov
		for _, c := range cases {
			r, _ := a.catalog.Requirement(c.Proven())
			out.Cases = append(out.Cases, listedCase{
				c.ID, c.Title, c.Feature, c.Requirements, r.Level, r.Section, validate.CapList(c.Needs.Caps),
			})
		}
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(out)
	case l.Table:
		table(a.Stdout, cov)
	case l.Untested:
		a.listUntested()
	case l.Coverage:
		for _, c := range cov {
			what := strings.Join(append(c.Proven, paren(c.Touched)...), " ")
			if !c.Covered() {
				what = "uncovered: " + c.Why
			}
			fmt.Fprintf(a.Stdout, "%-20s %-6s %s\n", c.ID, c.Level, what)
		}
		fmt.Fprintf(a.Stdout, "\n%s\n", report.CoverageLine(cov))
	default:
		group := ""
		for _, c := range cases {
			r, _ := a.catalog.Requirement(c.Proven())
			if g := c.ID[:strings.IndexByte(c.ID, '.')]; g != group {
				if group != "" {
					fmt.Fprintln(a.Stdout)
				}
				group = g
			}
			fmt.Fprintf(a.Stdout, "%-28s %-6s %-18s %s\n", c.ID, r.Level, r.ID, c.Title)
		}
		fmt.Fprintf(a.Stdout, "\n%d cases. %s\n", len(cases), report.CoverageLine(cov))
	}
	return nil
}

// listUntested prints the requirements that are not tested, with what they lack.
func (a *app) listUntested() {
	rows := a.mutants.Tests(a.catalog)
	tested := 0
	for _, r := range rows {
		if r.Standing == mutant.Tested {
			tested++
			continue
		}
		fmt.Fprintf(a.Stdout, "%-20s %-6s %-9s lacks %s\n", r.ID, r.Level, r.Standing, r.Lacks())
	}
	fmt.Fprintf(a.Stdout, "\n%d of %d requirements are tested: a case checks them, and a mutant breaks them\n", tested,
		len(rows))
}

func paren(ids []string) []string {
	var out []string
	for _, id := range ids {
		out = append(out, "("+id+")")
	}
	return out
}

// table writes the coverage as Markdown.
func table(w io.Writer, cov []validate.Coverage) {
	fmt.Fprint(w, "| requirement | level | section | rule | cases |\n|---|---|---|---|---|\n")
	for _, c := range cov {
		cases := strings.Join(append(c.Proven, paren(c.Touched)...), ", ")
		if !c.Covered() {
			cases = "uncovered: " + c.Why
		}
		text := strings.ReplaceAll(c.Text, "|", `\|`)
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", c.ID, c.Level, c.Section, text, cases)
	}
}

type explainCmd struct {
	ID string `arg:"" help:"Id of a requirement or a case."`
}

// Run executes the command.
func (e *explainCmd) Run(a *app) error {
	w := a.Stdout
	for _, c := range a.catalog.Coverage() {
		if !strings.EqualFold(c.ID, e.ID) {
			continue
		}
		fmt.Fprintf(w, "%s  %s  %s  (%s)\n\n  %s\n\n", c.ID, c.Level, c.Section, c.Scope, c.Text)
		fmt.Fprintf(w, "source      %s; %s\n", c.Section, c.Source)
		for _, id := range c.Proven {
			cs, _ := a.catalog.Case(id)
			fmt.Fprintf(w, "checked by  %-28s %s\n", id, cs.Title)
		}
		for _, id := range c.Touched {
			cs, _ := a.catalog.Case(id)
			fmt.Fprintf(w, "touched by  %-28s %s\n", id, cs.Title)
		}
		if !c.Covered() {
			fmt.Fprintf(w, "uncovered   %s\n", c.Why)
		}
		for _, m := range a.mutants.All() {
			if m.Breaks == c.ID {
				fmt.Fprintf(w, "broken by   %-28s %s\n", m.Name, m.Does)
			}
		}
		return nil
	}
	if c, ok := a.catalog.Case(e.ID); ok {
		fmt.Fprintf(w, "%s  %s\n\nfeature  %s\n", c.ID, c.Title, c.Feature)
		if c.Needs.Caps != 0 {
			fmt.Fprintf(w, "needs    %s\n", validate.CapNames(c.Needs.Caps))
		}
		for _, id := range c.Requirements {
			r, _ := a.catalog.Requirement(id)
			word := "touches"
			if c.CanCharge(id) {
				word = "checks"
			}
			fmt.Fprintf(w, "%-8s %s  %s  %s\n         %s\n", word, r.ID, r.Level, r.Section, r.Text)
		}
		fmt.Fprintf(w, "\nrun      %s run --case %s\n", a.Name, c.ID)
		return nil
	}
	if m, ok := a.catalog.Moved(e.ID); ok {
		r, _ := a.catalog.Requirement(m.Requirement)
		fmt.Fprintf(w, "%s  no case any more\n\nproved   %s  %s  %s\n         %s\n", m.ID, r.ID, r.Level, r.Section,
			r.Text)
		for _, to := range m.To {
			if command, isTest := m.Test(to); isTest {
				to = command
			}
			fmt.Fprintf(w, "now      %s\n", to)
		}
		return nil
	}
	if p := a.of(a.Config.Peer.Name); p != a {
		if slices.Contains(p.catalog.IDs(), e.ID) {
			return e.Run(p)
		}
	}
	return &exitError{validate.ExitNothing, errors.New(noID(e.ID, a.catalog.IDs()))}
}

// maxSuggested limits the ids that noID lists.
const maxSuggested = 12

// noID returns the error message for an unknown id, with the ids that contain it, or else similar ones.
func noID(id string, ids []string) string {
	msg := fmt.Sprintf("no requirement or case %q", id)
	bare := strings.ToLower(strings.Trim(id, "*?.- "))
	var like []string
	for _, x := range ids {
		if bare != "" && strings.Contains(strings.ToLower(x), bare) {
			like = append(like, x)
		}
	}
	switch {
	case len(like) > maxSuggested:
		return fmt.Sprintf("%s; %d ids contain it, such as %s", msg, len(like), strings.Join(like[:maxSuggested], ", "))
	case len(like) == 0:
		like = validate.Nearest(id, ids)
	}
	if len(like) > 0 {
		msg += "; did you mean " + strings.Join(like, ", ") + "?"
	}
	return msg
}

type driversCmd struct{}

// Run executes the command.
func (*driversCmd) Run(a *app) error {
	list := a.drivers.All()
	if a.Config.Peer.Open != nil {
		list = append(list, a.Config.Peer)
	}
	for i, d := range list {
		s := fmt.Sprintf("%-14s %s", d.Name, d.Description)
		if len(d.Links) > 0 {
			s += "; links: " + strings.Join(d.Links, ", ")
		}
		if d.Exclusive {
			s += "; exclusive: one worker"
		}
		if i == 0 {
			s += "; the default driver"
		}
		fmt.Fprintln(a.Stdout, s)
		for _, k := range slices.Sorted(maps.Keys(d.Settings)) {
			fmt.Fprintf(a.Stdout, "%14s --set %s=…  %s\n", "", k, d.Settings[k])
		}
	}
	for _, e := range a.Elsewhere {
		fmt.Fprintf(a.Stdout, "%-14s %s; in the program %s\n", e.Driver, e.Description, e.Program)
	}
	return nil
}
