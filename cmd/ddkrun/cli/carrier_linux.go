package cli

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
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
	library string // of carrierPreload
	reason  string // why it is not carrierPreload
}

// choose returns the carrier for a program that was asked for.
func choose(carrier, path string) (choice, error) {
	if carrier == carrierSeccomp {
		return choice{carrier: carrierSeccomp, reason: "--carrier " + carrierSeccomp}, nil
	}
	isStatic := path != "" && hasNoInterpreter(path)
	if isStatic && carrier == carrierAuto {
		return choice{carrier: carrierSeccomp, reason: path + " is a static program, which preloads no library"}, nil
	}
	library, err := library()
	switch {
	case err == nil && isStatic:
		return choice{}, fmt.Errorf("--carrier %s: %s is a static program, which preloads no library "+
			"(use --carrier %s)", carrierPreload, path, carrierSeccomp)
	case err == nil:
		return choice{carrier: carrierPreload, library: library}, nil
	case carrier == carrierPreload:
		return choice{}, err
	}
	return choice{carrier: carrierSeccomp, reason: err.Error()}, nil
}

// maxScripts is the number of interpreters that are scripts themselves, as Linux limits it.
const maxScripts = 5

// hasNoInterpreter reports whether a program, or the one that interprets a script, is static.
func hasNoInterpreter(path string) bool {
	for range maxScripts {
		f, err := elf.Open(path)
		if err == nil {
			defer f.Close()
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP {
					return false
				}
			}
			return f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN
		}
		if path = interpreter(path); path == "" {
			return false
		}
	}
	return false
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
