package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInterpreter reads the first lines of scripts.
func TestInterpreter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"#!/bin/sh\n": "/bin/sh", "#! /bin/sh -e\nrest": "/bin/sh", "text\n": "", "": "", "#!\n": "", "#!/bin/sh": "",
	} {
		path := filepath.Join(dir, "script")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		assert.Equal(t, want, interpreter(path), "%q", text)
		if want == "" {
			assert.False(t, hasNoInterpreter(path), "%q", text)
		}
	}
	assert.Empty(t, interpreter(filepath.Join(dir, "none")))
}

// TestChoose checks that a static program gets no library.
func TestChoose(t *testing.T) {
	t.Parallel()
	// The header of a static program for amd64.
	static := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	copy(static[16:], "\x02\x00\x3e\x00\x01")
	static[52], static[54] = 64, 56
	path := filepath.Join(t.TempDir(), "static")
	require.NoError(t, os.WriteFile(path, static, 0o600))
	c, err := choose(carrierAuto, path)
	require.NoError(t, err)
	assert.Equal(t, carrierSeccomp, c.carrier)
	assert.Contains(t, c.reason, "static")
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!"+path+"\n"), 0o600))
	c, err = choose(carrierAuto, script)
	require.NoError(t, err)
	assert.Equal(t, carrierSeccomp, c.carrier, "the interpreter of the script is static")
}

// TestNoCompiler checks the choice where the library cannot be compiled.
func TestNoCompiler(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	c, err := choose(carrierAuto, "")
	require.NoError(t, err)
	assert.Equal(t, carrierSeccomp, c.carrier)
	assert.Contains(t, c.reason, "no C compiler")
	_, err = choose(carrierPreload, "")
	assert.ErrorContains(t, err, "no C compiler")
}
