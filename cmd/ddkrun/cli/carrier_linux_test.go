package cli

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
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
			assert.Equal(t, kindDynamic, kindOf(path), "%q", text)
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
	c, err := choose(options{carrier: carrierAuto}, path)
	require.NoError(t, err)
	assert.Equal(t, carrierSeccomp, c.carrier)
	assert.Contains(t, c.reason, "static")
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!"+path+"\n"), 0o600))
	c, err = choose(options{carrier: carrierAuto}, script)
	require.NoError(t, err)
	assert.Equal(t, carrierSeccomp, c.carrier, "the interpreter of the script is static")
}

// elfFile returns an ELF file for amd64 with a dynamic linker and a section.
func elfFile(t *testing.T, linker, section string) string {
	names := "\x00" + section + "\x00.shstrtab\x00" + linker
	const header, segment, entry = 64, 56, 64
	at := uint64(header + segment)
	var b bytes.Buffer
	write := func(v any) { require.NoError(t, binary.Write(&b, binary.LittleEndian, v)) }
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: header,
		Shoff: at + uint64(len(names)), Ehsize: header, Phentsize: segment, Phnum: 1, Shentsize: entry, Shnum: 3,
		Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	write(h)
	write(elf.Prog64{Type: uint32(elf.PT_INTERP), Off: at + uint64(len(names)-len(linker)),
		Filesz: uint64(len(linker))})
	b.WriteString(names)
	write(elf.Section64{})
	write(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: at})
	write(elf.Section64{Name: uint32(len(section) + 2), Type: uint32(elf.SHT_STRTAB), Off: at,
		Size: uint64(len(names))})
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// TestKind distinguishes programs that make their system calls by the C library from others.
func TestKind(t *testing.T) {
	t.Parallel()
	const linker = "/lib64/ld-linux-x86-64.so.2\x00"
	assert.Equal(t, kindGo, kindOf(elfFile(t, linker, ".go.buildinfo")))
	assert.Equal(t, kindDynamic, kindOf(elfFile(t, linker, ".comment")))
	assert.Equal(t, kindMusl, kindOf(elfFile(t, "/lib/ld-musl-x86_64.so.1\x00", ".comment")))
	assert.Equal(t, kindDynamic, kindOf(""))
	foreign := elfFile(t, linker, ".comment")
	f, err := os.OpenFile(foreign, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{byte(elf.EM_386), 0}, 18)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.Equal(t, kindForeign, kindOf(foreign))
	for _, carrier := range carriers {
		_, err = choose(options{carrier: carrier}, foreign)
		assert.ErrorContains(t, err, "another processor")
	}
}

// TestNoCompiler checks that a library is compiled only if that is asked for.
func TestNoCompiler(t *testing.T) {
	useDirs(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	for _, carrier := range carriers {
		c, err := choose(options{carrier: carrier}, "")
		require.NoError(t, err)
		assert.NotEmpty(t, c.library)
		_, err = choose(options{carrier: carrier, compile: true}, "")
		assert.ErrorIs(t, err, errCompiler)
	}
}
