package cli

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ciddk/internal/seccomp"
)

// The carriers.
const (
	carrierAuto    = "auto"
	carrierPreload = "preload"
	carrierSeccomp = "seccomp"
)

// carriers are the values of --carrier.
var carriers = []string{carrierAuto, carrierPreload, carrierSeccomp}

// choice is the carrier for a program.
type choice struct {
	carrier string
	library string // that the program preloads; mendLibrary with carrierSeccomp, "" if it cannot be installed
	missing error  // why library is ""
	reason  string // why it is not carrierPreload
}

// choose returns the carrier for a program that was asked for.
func choose(o options, path string) (choice, error) {
	c, err := chooseCarrier(o.carrier, path, o.compile)
	if err == nil && c.carrier == carrierSeccomp && kindOf(path) == kindHidden {
		return choice{}, fmt.Errorf("%s cannot be read by this user, so that neither can its memory, which the "+
			"carrier %s needs (use --carrier %s if it is a dynamic program): %s", path, carrierSeccomp, carrierPreload,
			c.reason)
	}
	if err == nil && c.carrier == carrierSeccomp {
		if c.library, c.missing = mendLibrary.install(o.compile); o.compile {
			err = c.missing
		}
	}
	return c, err
}

func chooseCarrier(carrier, path string, isCompiled bool) (choice, error) {
	kind := kindOf(path)
	switch {
	case kind == kindForeign:
		return choice{}, fmt.Errorf("%s is a program for another processor, or for 32 bits (build it for %s, whose "+
			"programs this ddkrun runs)", path, runtime.GOARCH)
	case carrier == carrierSeccomp:
		return choice{carrier: carrierSeccomp, reason: "--carrier " + carrierSeccomp}, nil
	}
	isStatic := kind == kindStatic
	switch {
	case carrier != carrierAuto:
	case isStatic:
		return choice{carrier: carrierSeccomp, reason: path + " is a static program, which preloads no library"}, nil
	case kind == kindGo && seccomp.Check() == nil:
		return choice{carrier: carrierSeccomp,
			reason: path + " is a Go program, which makes its system calls without the C library"}, nil
	case kind == kindMusl:
		return choice{carrier: carrierSeccomp, reason: path + " uses the C library musl"}, nil
	case kind == kindSecure:
		return choice{carrier: carrierSeccomp, reason: path + secureReason}, nil
	}
	library, err := carrierLibrary.install(isCompiled)
	switch {
	case err == nil && isStatic:
		return choice{}, fmt.Errorf("--carrier %s: %s is a static program, which preloads no library "+
			"(use --carrier %s)", carrierPreload, path, carrierSeccomp)
	case err == nil && kind == kindSecure:
		return choice{}, fmt.Errorf("--carrier %s: %s%s (use --carrier %s)", carrierPreload, path, secureReason,
			carrierSeccomp)
	case err == nil:
		return choice{carrier: carrierPreload, library: library}, nil
	case carrier == carrierPreload || isCompiled:
		return choice{}, err
	}
	return choice{carrier: carrierSeccomp, reason: err.Error()}, nil
}

const secureReason = " has rights that its caller lacks (setuid, setgid, capabilities), so that it preloads no library"

// maxScripts is the number of interpreters that are scripts themselves, as Linux limits it.
const maxScripts = 5

// kind is what matters of a program for the choice of its carrier.
type kind int

const (
	kindDynamic kind = iota // it makes its system calls by the C library
	kindStatic              // it has no dynamic linker, which would preload a library
	kindGo                  // it is dynamic, and makes its system calls by itself
	kindMusl                // it has another C library than the one with which the library is built
	kindSecure              // it runs with more rights than its caller, and its dynamic linker preloads nothing
	kindForeign             // it is for another processor, or for 32 bits
	kindHidden              // this user may execute it, and not read it
)

// kindOf returns the kind of a program, or of the one that interprets a script. Others are dynamic.
func kindOf(path string) kind {
	for range maxScripts {
		if path == "" {
			break
		}
		f, err := elf.Open(path)
		if err == nil {
			defer f.Close()
			if k := kindOfFile(f); k == kindStatic || k == kindForeign || !isSecure(path) {
				return k
			}
			return kindSecure
		}
		if errors.Is(err, fs.ErrPermission) {
			return kindHidden
		}
		path = interpreter(path)
	}
	return kindDynamic
}

func kindOfFile(f *elf.File) kind {
	linker := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	switch {
	case f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN:
		return kindDynamic
	case f.Class != elf.ELFCLASS64 || machines[runtime.GOARCH] != f.Machine:
		return kindForeign
	case linker < 0:
		return kindStatic
	case isMusl(f.Progs[linker]):
		return kindMusl
	case f.Section(".go.buildinfo") != nil && hasOnlyCLibrary(f):
		return kindGo
	}
	return kindDynamic
}

// machines are the processors of ddkrun.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// isSecure reports whether the kernel gives a program rights that this process does not have (AT_SECURE; execve(2),
// capabilities(7)).
func isSecure(path string) bool {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(path, &st) != nil || unix.Statfs(path, &fs) != nil || fs.Flags&unix.ST_NOSUID != 0 {
		return false
	}
	if kept, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && kept == 1 {
		return false
	}
	_, err := unix.Getxattr(path, "security.capability", nil)
	isGroup := st.Mode&unix.S_ISGID != 0 && st.Mode&unix.S_IXGRP != 0
	return st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Geteuid() || isGroup && int(st.Gid) != os.Getegid() ||
		err == nil && os.Geteuid() != 0
}

// isMusl reports whether the dynamic linker of a program is that of musl.
func isMusl(linker *elf.Prog) bool {
	name, err := io.ReadAll(io.LimitReader(linker.Open(), unix.PathMax))
	return err == nil && strings.HasPrefix(filepath.Base(string(name)), "ld-musl-")
}

// cLibraries are the beginnings of the names of the C library's parts.
var cLibraries = []string{"libc.", "libpthread.", "libresolv.", "libdl.", "libm.", "librt.", "ld-linux", "libgcc_s."}

// hasOnlyCLibrary reports whether a program has no library that could open devices.
func hasOnlyCLibrary(f *elf.File) bool {
	names, err := f.ImportedLibraries()
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(cLibraries, func(begin string) bool { return strings.HasPrefix(name, begin) })
	})
}

// interpreter returns the program that executes a script, "" if it is none.
func interpreter(script string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return ""
	}
	words := strings.Fields(strings.TrimPrefix(string(line), "#!"))
	if !strings.HasPrefix(string(line), "#!") || len(words) == 0 {
		return ""
	}
	if len(words) == 2 && strings.HasSuffix(words[0], "/env") {
		if path, err := exec.LookPath(words[1]); err == nil {
			return path
		}
	}
	return words[0]
}
