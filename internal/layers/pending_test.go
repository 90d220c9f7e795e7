package layers

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPending(t *testing.T) {
	p := parsePending("# comment\n\na/b\nc/...\n")
	pattern := regexp.MustCompile(p.Pattern())
	for folder, want := range map[string]bool{"a/b": true, "a/b/x": false, "a": false, "a/bc": false, "c": true,
		"c/d/e": true, "cd": false} {
		assert.Equal(t, want, p.Has(folder), folder)
		assert.Equal(t, want, pattern.MatchString(folder+"/f.go"), folder)
	}
	assert.False(t, parsePending("").Has("a"))
}
