package verbsmatrix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

// TestRead reads the list.
func TestRead(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	m, err := Read(root)
	require.NoError(t, err)
	assert.Greater(t, len(m.Programs), 50)
	used := map[string]bool{}
	for _, p := range m.Programs {
		for _, s := range Situations {
			used[p.Left(s)] = true
		}
	}
	for _, name := range m.Names {
		assert.True(t, used[name], "the reason %s is not used", name)
	}
}

// TestAdd reads lines.
func TestAdd(t *testing.T) {
	m := &Matrix{Reasons: map[string]string{}}
	for _, line := range []string{"", "# comment", "!lost: it waits", "a -x; ; text; loss=lost load=lost",
		"b -s {a}; b -c {a}; text; two,load=lost one=lost; endless"} {
		require.NoError(t, m.add(line), line)
	}
	require.Len(t, m.Programs, 2)
	a, b := m.Programs[0], m.Programs[1]
	server, client := a.Lines("h")
	assert.Equal(t, []string{"a -x", "a -x h"}, []string{server, client})
	server, client = b.Lines("h")
	assert.Equal(t, []string{"b -s h", "b -c h"}, []string{server, client})
	assert.True(t, b.IsEndless)
	assert.Equal(t, "lost", a.Left(Situation{Two, Loss}))
	assert.Equal(t, "lost", a.Left(Situation{Two, Load}))
	assert.Empty(t, a.Left(Situation{One, Load}))
	assert.Empty(t, a.Left(Situation{Two, ""}))
	assert.Equal(t, "lost", b.Left(Situation{Two, Load}))
	assert.Equal(t, "lost", b.Left(Situation{One, Load}))
	assert.Empty(t, b.Left(Situation{Two, Loss}))
	for _, line := range []string{"!lost", "a; b", "a;;", ";;text", "a;;text;two=none", "a;b;c;;;f"} {
		require.Error(t, m.add(line), line)
	}
}

// TestApplications reads the list of applications.
func TestApplications(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	list, err := Applications(root)
	require.NoError(t, err)
	assert.Greater(t, len(list), 20)
	var of Application
	for _, line := range []string{"what; server; client; text", "@package", "@package 1", "what; server", "a; b; c",
		"a; b; c; d; e"} {
		_, err := parseApplication(line, &of)
		assert.Equal(t, line == "@package 1", err == nil, line)
	}
	a, err := parseApplication("what; server -p verbs;ofi_rxm; ; text; endless", &of)
	require.NoError(t, err)
	assert.Equal(t, &Application{Package: "package", Version: "1", What: "what", Server: "server -p verbs;ofi_rxm",
		Want: "text", IsEndless: true}, a)
}
