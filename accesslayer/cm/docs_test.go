package cm_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
)

var update = flag.Bool("update", false, "write the tables of docs/connections.md")

// tables returns the state tables in the form of docs/connections.md.
func tables() string {
	var b strings.Builder
	row := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	shown := func(s cm.State) bool { return s != cm.StateIdle && s != cm.StateClosed }
	head, line := []string{"state"}, []string{"---"}
	for m := range int(cm.Messages) {
		name, _ := cm.Reaction(0, m)
		head, line = append(head, name), append(line, "---")
	}
	row(head...)
	row(line...)
	for s := range cm.States {
		if !shown(s) {
			continue
		}
		cells := []string{s.String()}
		for m := range int(cm.Messages) {
			_, action := cm.Reaction(s, m)
			cells = append(cells, action)
		}
		row(cells...)
	}
	b.WriteString("\nLoading an alternate path:\n\n")
	row("state", "LAP", "LAP again", "APR", "MRA")
	row("---", "---", "---", "---", "---")
	for s := range cm.LapStates {
		name, a := cm.LapReaction(s)
		row(name, a[0], a[1], a[2], a[3])
	}
	b.WriteString("\nCalls:\n\n")
	row("call", "states that allow it")
	row("---", "---")
	for k := range int(cm.Calls) {
		var in []string
		name := ""
		for s := range cm.States {
			n, ok := cm.Allowed(s, k)
			if name = n; ok {
				in = append(in, s.String())
			}
		}
		row(name, strings.Join(in, ", "))
	}
	b.WriteString("\nThe event-driven form of a call, such as `StartAccept`, is allowed in the same states.\n")
	return b.String()
}

// TestDocs compares the tables in docs/connections.md with those of the package. With -update, it rewrites them.
func TestDocs(t *testing.T) {
	const page, begin, end = "../../docs/connections.md",
		"<!-- tables: go test ./accesslayer/cm -run TestDocs -update -->\n\n", "\n<!-- end of tables -->"
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok, "docs/connections.md has no marker for the tables")
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "docs/connections.md has no marker for the tables")
	want := before + begin + tables() + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(b), "run the test with -update")
}
