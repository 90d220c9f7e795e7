package cli

import (
	"bytes"
	"debug/elf"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// imports are the functions of the C library that the preloaded library calls, besides those of strings and numbers:
// nothing that a system call does, and nothing that is replaced by the libraries that programs are loaded with (hooks
// of memory, fakeroot, allocators), except for allocations, and for what only the C library can do.
const imports = "calloc free dlopen dlsym dlvsym dlerror dladdr getenv environ __environ sysconf __errno_location " +
	"pthread_attr_destroy pthread_attr_init pthread_attr_setdetachstate pthread_attr_setstacksize pthread_create " +
	"pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_once pthread_setcanceltype " +
	"sem_destroy sem_init sem_post sem_wait sigaction fclose readdir closedir"

// TestLibraryCalls checks which functions the library calls: none that it exports, because such a call may be that of
// another library, which calls back.
func TestLibraryCalls(t *testing.T) {
	allowed := strings.Fields(imports)
	for processor := range builders {
		t.Run(processor, func(t *testing.T) {
			f, err := elf.NewFile(bytes.NewReader(carrierLibrary.built(processor)))
			require.NoError(t, err)
			symbols, err := f.DynamicSymbols()
			require.NoError(t, err)
			exported := map[string]bool{}
			for _, s := range symbols {
				if s.Section != elf.SHN_UNDEF {
					exported[s.Name] = true
				} else if isText := strings.HasPrefix(s.Name, "st") || strings.HasPrefix(s.Name, "mem") ||
					strings.Contains(s.Name, "scanf") || strings.Contains(s.Name, "printf"); !isText {
					assert.Contains(t, allowed, s.Name)
				}
			}
			require.Greater(t, len(exported), 100)
			for _, name := range []string{".rela.plt", ".rela.dyn"} {
				b, err := f.Section(name).Data()
				require.NoError(t, err)
				for ; len(b) > 0; b = b[24:] { // an entry of 24 bytes
					if n := elf.R_SYM64(f.ByteOrder.Uint64(b[8:])); n > 0 {
						s := symbols[n-1]
						assert.Equal(t, elf.SHN_UNDEF, s.Section, "the library refers to %s, which it exports", s.Name)
					}
				}
			}
			checkTwins(t, processor, exported)
		})
	}
}

// checkTwins checks that functions that programs call instead of exported ones when they are compiled with
// _FORTIFY_SOURCE are exported, too: those of the C library with another name at the end.
func checkTwins(t *testing.T, processor string, exported map[string]bool) {
	path, err := exec.Command(builders[processor].command, "-print-file-name=libc.so.6").Output()
	if err != nil {
		t.Skip(err)
	}
	f, err := elf.Open(strings.TrimSpace(string(path)))
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	twins := 0
	for _, s := range symbols {
		for _, end := range []string{"_chk", "_2"} {
			name, ok := strings.CutSuffix(strings.TrimPrefix(s.Name, "__"), end)
			if ok && exported[name] {
				twins++
				assert.True(t, exported[s.Name], "the library exports %s and not %s", name, s.Name)
			}
		}
	}
	require.Positive(t, twins)
}
