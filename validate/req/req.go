// Package req has the requirements that a driver is certified against. A requirement has an id that never changes and
// is never reused, one sentence, a level and a source. Suites declare their own requirements beside their cases. A Book
// collects requirements and rejects duplicate ids.
//
// # Ids
//
//	SAS-s-nn      the 92 statements of the 2002 Software Architecture Specification, in SAS()
//	CI-Verb-nn    rules of one verb that the SAS takes from IBTA volume 1 or from the headers, such as CI-CreateCQ-02
//	IBTA-c.s-nn   rules of the transport, such as IBTA-9.7-04
//	MAD-Area-nn   rules of management datagrams, such as MAD-GSI-01
//	CM-Area-nn    rules of connection management, such as CM-Req-01
//	SMA-Area-nn   rules of subnet management at a port, such as SMA-Key-01
//	WIRE-Area-nn  rules of single packets and of the replies to them, as seen on the wire, such as WIRE-Nak-01
package req

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ciddk/internal/nameorder"
)

// Level is how binding a requirement is, in the terms of RFC 2119.
type Level uint8

const (
	Must   Level = 1 + iota // a failure denies the certificate
	Should                  // a failure denies the certificate only with --strict
	May                     // an option of the driver; a failure is reported
	Info                    // informative, or a statement about documents; a failure is reported
)

var levelNames = map[Level]string{Must: "MUST", Should: "SHOULD", May: "MAY", Info: "INFO"}

func (l Level) String() string {
	if s, ok := levelNames[l]; ok {
		return s
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText implements encoding.TextMarshaler, so that reports have the names of levels.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(b []byte) error {
	for k, v := range levelNames {
		if strings.EqualFold(v, string(b)) {
			*l = k
			return nil
		}
	}
	return fmt.Errorf("req: unknown level %q (use MUST, SHOULD, MAY or INFO)", b)
}

// Scope is the part of the system that has to meet a requirement. It determines which suite can check it.
type Scope string

const (
	Driver      Scope = "driver"       // through ci alone
	AccessLayer Scope = "access layer" // with an access layer above the driver
	UserMode    Scope = "user mode"    // across the process boundary
	Subnet      Scope = "subnet"       // needs a subnet or a subnet manager
	Document    Scope = "document"     // review, not execution
)

// Must returns a requirement of level MUST in this scope.
func (s Scope) Must(id, section, source, text string) Requirement {
	return Requirement{ID: id, Text: text, Level: Must, Section: section, Source: source, Scope: s}
}

// Should returns a requirement of level SHOULD in this scope.
func (s Scope) Should(id, section, source, text string) Requirement {
	return Requirement{ID: id, Text: text, Level: Should, Section: section, Source: source, Scope: s}
}

// ParseTable parses a table of requirements of level MUST in this scope. A line has the id, the section, the source and
// the sentence, separated by tabs. Empty lines and lines that begin with # are comments.
func (s Scope) ParseTable(table string) ([]Requirement, error) {
	var out []Requirement
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("requirements: %q: %d columns, want id, section, source and sentence", f[0], len(f))
		}
		out = append(out, s.Must(f[0], f[1], f[2], f[3]))
	}
	return out, nil
}

// Requirement is one rule.
type Requirement struct {
	ID      string `json:"id"`
	Text    string `json:"text"`    // one sentence, in our own words
	Level   Level  `json:"level"`   //
	Section string `json:"section"` // where the rule is, such as "SAS 2.1" or "IBTA 11.2.8.1"
	Source  string `json:"source"`  // more of the citation: a table, a header row, a compliance statement
	Scope   Scope  `json:"scope"`   //
	// Uncovered is the reason why no case checks the requirement, if that is a decision. It is ignored if a case does.
	Uncovered string `json:"uncovered,omitempty"`
}

var (
	idForm = regexp.MustCompile(
		`^(SAS-\d+(\.\d+)?-\d{2}|(CI|MAD|SMA|CM|WIRE)-[A-Za-z]+-\d{2}|IBTA-\d+(\.\d+)*-\d{2})$`,
	)
	sectionForm = regexp.MustCompile(`^(SAS \d+(\.\d+)*|IBTA A?\d+(\.\d+)*|RoCEv2 A\d+(\.\d+)*|CI( .+)?)$`)
)

// check returns an error if the requirement has an invalid field.
func (r Requirement) check() error {
	switch {
	case !idForm.MatchString(r.ID):
		return fmt.Errorf("requirement %q: invalid id (the forms are SAS-2.1-07, CI-CreateCQ-02, IBTA-9.7-04, "+
			"MAD-GSI-01, SMA-Key-01, CM-Req-01, WIRE-Nak-01)", r.ID)
	case strings.TrimSpace(r.Text) == "":
		return fmt.Errorf("requirement %s: no text", r.ID)
	case levelNames[r.Level] == "":
		return fmt.Errorf("requirement %s: no level", r.ID)
	case !sectionForm.MatchString(r.Section):
		return fmt.Errorf("requirement %s: invalid section %q (the forms are \"SAS 2.1\", \"IBTA 11.2.8.1\", "+
			"\"RoCEv2 A17.4\", \"CI context\")", r.ID, r.Section)
	case r.Scope == "":
		return fmt.Errorf("requirement %s: no scope", r.ID)
	}
	return nil
}

// Group returns the first two numbers of the section and the title of that part. It is a row of the matrix.
func (r Requirement) Group() string {
	book, num, _ := strings.Cut(r.Section, " ")
	if book == "CI" {
		return "CI contract"
	}
	if p := strings.SplitN(num, ".", 3); len(p) > 2 {
		num = p[0] + "." + p[1]
	}
	g := book + " " + num
	if t := groupTitles[g]; t != "" {
		return g + " " + t
	}
	return g
}

// groupTitles are the project's own names for parts of the sources, not their headings.
var groupTitles = map[string]string{
	"SAS 0":        "scope",
	"SAS 2.1":      "deviations from IBTA",
	"SAS 2.2":      "interfaces, load, unload",
	"SAS 2.3":      "theory of operation",
	"SAS 2.4":      "user mode",
	"IBTA 5.2":     "packet formats",
	"IBTA 7.6":     "virtual lanes",
	"IBTA 7.7":     "local route header",
	"IBTA 7.8":     "CRCs",
	"IBTA 8.3":     "global route header",
	"IBTA 9.2":     "base transport header",
	"IBTA 9.3":     "extended headers",
	"IBTA 9.4":     "transport functions",
	"IBTA 9.5":     "ordering",
	"IBTA 9.6":     "packet validation",
	"IBTA 9.7":     "reliable service",
	"IBTA 9.8":     "unreliable service",
	"IBTA 9.9":     "transport errors",
	"IBTA 9.10":    "header sources",
	"IBTA 10.2":    "HCA resources",
	"IBTA 10.3":    "QP states",
	"IBTA 10.4":    "path migration",
	"IBTA 10.5":    "multicast",
	"IBTA 10.6":    "memory",
	"IBTA 10.7":    "work requests",
	"IBTA 10.8":    "work processing",
	"IBTA 10.9":    "partitioning",
	"IBTA 10.10":   "errors",
	"IBTA 11.2":    "resource verbs",
	"IBTA 11.3":    "multicast verbs",
	"IBTA 11.4":    "work verbs",
	"IBTA 11.5":    "event verbs",
	"IBTA 11.6":    "results",
	"IBTA 12.6":    "CM messages",
	"IBTA 12.7":    "CM message fields",
	"IBTA 12.8":    "CM alternate paths",
	"IBTA 12.9":    "CM states",
	"IBTA 12.10":   "CM peer-to-peer requests",
	"IBTA 12.11":   "CM service ID resolution",
	"IBTA 13.4":    "management datagrams",
	"IBTA 13.5":    "management interfaces",
	"IBTA 13.6":    "reliable multi-packet datagrams",
	"IBTA 14.2":    "subnet management agent",
	"IBTA 17.2":    "automatic path migration",
	"IBTA A19":     "memory placement extensions",
	"RoCEv2 A17.3": "packets",
	"RoCEv2 A17.4": "datagrams",
	"RoCEv2 A17.9": "congestion",
}

// Book is a set of requirements by id.
type Book struct {
	byID  map[string]Requirement
	order []string
}

// NewBook collects requirements. An invalid requirement or a duplicate id is an error.
func NewBook(lists ...[]Requirement) (*Book, error) {
	b := &Book{byID: map[string]Requirement{}}
	for _, l := range lists {
		for _, r := range l {
			if err := r.check(); err != nil {
				return nil, err
			}
			if old, ok := b.byID[r.ID]; ok {
				return nil, fmt.Errorf("requirement %s is declared twice: %q and %q", r.ID, old.Text, r.Text)
			}
			b.byID[r.ID] = r
			b.order = append(b.order, r.ID)
		}
	}
	slices.SortStableFunc(b.order, CompareIDs)
	return b, nil
}

// Get returns the requirement with the id.
func (b *Book) Get(id string) (Requirement, bool) {
	r, ok := b.byID[id]
	return r, ok
}

// All returns the requirements in order of their ids.
func (b *Book) All() []Requirement {
	out := make([]Requirement, len(b.order))
	for i, id := range b.order {
		out[i] = b.byID[id]
	}
	return out
}

// CompareIDs compares ids for sorting: SAS first, then CI, IBTA, MAD, CM, WIRE; numbers are compared by value.
func CompareIDs(a, b string) int {
	rank := func(s string) int {
		return strings.Index("SAS-CI-IBTA-MAD-SMA-CM-WIRE-", s[:strings.IndexByte(s+"-", '-')+1])
	}
	if d := rank(a+"-") - rank(b+"-"); d != 0 {
		return d
	}
	return nameorder.Compare(a, b)
}

// CompareGroups compares results of Group for sorting: SAS, IBTA, RoCEv2, then the rules of package ci; numbers are
// compared by value.
func CompareGroups(a, b string) int {
	rank := func(s string) int {
		book, _, _ := strings.Cut(s, " ")
		return slices.Index([]string{"SAS", "IBTA", "RoCEv2", "CI"}, book)
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return nameorder.Compare(a, b)
}
