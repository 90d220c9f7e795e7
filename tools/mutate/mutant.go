package main

import (
	"fmt"
	"strings"
)

// mutant is one small change of the source.
type mutant struct {
	File     string `json:"file"` // relative to the module's root, with slashes
	Line     int    `json:"line"`
	Function string `json:"function"` // package folder and name, such as rvt.(*qp).Modify
	Operator string `json:"operator"`
	Start    int    `json:"start"` // first byte that is replaced
	Old      string `json:"old"`
	New      string `json:"new"`

	code string // the line of the source, for exclusions
}

// change returns the edit in the form that exclusions.yaml has, without line breaks.
func (m *mutant) change() string { return oneLine(m.Old) + " -> " + oneLine(m.New) }

// id identifies the mutant within one version of the source.
func (m *mutant) id() string {
	return fmt.Sprintf("%s:%d:%s:%s", m.File, m.Start, m.Operator, m.change())
}

// isSameEdit reports whether two mutants are the same edit of one function, perhaps at other positions.
func (m *mutant) isSameEdit(o *mutant) bool {
	return m.File == o.File && m.Function == o.Function && m.Operator == o.Operator && m.Old == o.Old && m.New == o.New
}

// apply returns the source with the change.
func (m *mutant) apply(src []byte) []byte {
	out := append([]byte{}, src[:m.Start]...)
	out = append(out, m.New...)
	return append(out, src[m.Start+len(m.Old):]...)
}

// maxDiffLines bounds the lines of one side of a diff.
const maxDiffLines = 12

// diff returns the changed lines, before and after.
func (m *mutant) diff(src []byte) string {
	text := string(src)
	end := m.Start + len(m.Old)
	first := strings.LastIndexByte(text[:m.Start], '\n') + 1
	last := len(text)
	if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
		last = end + i
	}
	var b strings.Builder
	side := func(sign, s string) {
		lines := strings.Split(s, "\n")
		for i, l := range lines {
			if i == maxDiffLines {
				fmt.Fprintf(&b, "%s … %d more lines\n", sign, len(lines)-i)
				break
			}
			if strings.TrimSpace(l) != "" {
				fmt.Fprintf(&b, "%s %s\n", sign, l)
			}
		}
	}
	side("-", text[first:last])
	side("+", text[first:m.Start]+m.New+text[end:last])
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
