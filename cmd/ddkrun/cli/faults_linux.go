package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A fault is one of the user library of Linux Soft-RoCE that programs notice.
type fault struct {
	text     string
	since    int // the release of rdma-core that has it first
	fixed    int // the first one that does not; 0: none yet
	isMended bool
}

// faults are those of librxe and its callers in rdma-core, as the history of providers/rxe has them.
var faults = []fault{
	{"UD: a send names no address handle, and fails", 0, 39, false},
	{"ibv_create_cq_ex, ibv_create_qp_ex: not supported", 0, 34, false},
	{"ibv_rereg_mr, ibv_import_device: not supported", 0, 0, false},
	{"ibv_next_poll loses a completion after ENOENT (rdma-core#1512)", 34, 55, true},
	{"ibv_next_poll unlocks a queue twice (rdma-core#1617)", 34, 59, true},
	{"ibv_wr_set_inline_data_list sends nothing (rdma-core#1751)", 34, 64, true},
	{"ibv_wr_set_inline_data needs the flag IBV_SEND_INLINE, against its man page", 34, 0, true},
	{"ibv_create_qp_ex creates QPs for operations that the device lacks: ATOMIC WRITE, FLUSH", 44, 0, true},
}

// faultsOf returns the faults of a release.
func faultsOf(release int) []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return release < f.since || f.fixed != 0 && release >= f.fixed
	})
}

// state returns what becomes of a fault.
func (f *fault) state(isStock bool) string {
	switch {
	case f.isMended && !isStock:
		return "worked around"
	case f.fixed == 0:
		return "in all releases"
	}
	return fmt.Sprintf("until rdma-core %d", f.fixed)
}

// explainFaults prints the user library that programs find, and its faults. why is the reason why none is worked
// around, or "".
func explainFaults(w io.Writer, why string) {
	path, release, minor := userLibrary(os.Getenv("LD_LIBRARY_PATH"))
	if path == "" {
		fmt.Fprintln(w, "library:  libibverbs was not found (Debian: ibverbs-providers); a program may bring its own")
		return
	}
	if release == 0 {
		fmt.Fprintf(w, "library:  %s, whose name has no release of rdma-core\n", path)
		return
	}
	fmt.Fprintf(w, "library:  %s (rdma-core %d.%s)\n", path, release, minor)
	if why != "" {
		fmt.Fprintf(w, "          no fault of it is worked around: %s\n", why)
	}
	for _, f := range faultsOf(release) {
		fmt.Fprintf(w, "          %s: %s\n", f.text, f.state(why != ""))
	}
}

// libraryPlaces are where dynamic linkers look for libraries of programs without a path of their own.
var libraryPlaces = []string{"/usr/local/lib", "/usr/local/lib/*-linux-gnu", "/lib/*-linux-gnu", "/usr/lib/*-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// libraryName matches the file of libibverbs: its ABI, and the release of rdma-core.
var libraryName = regexp.MustCompile(`^libibverbs\.so\.1\.\d+\.(\d+)\.(\d+)$`)

// userLibrary returns the path of the libibverbs that programs find first, "" if there is none, and its release.
func userLibrary(searched string) (path string, release int, minor string) {
	for _, pattern := range slices.Concat(strings.Split(searched, ":"), libraryPlaces) {
		if pattern == "" {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(pattern, "libibverbs.so.1")) // the pattern may be no valid one
		for _, name := range found {
			file, err := filepath.EvalSymlinks(name)
			if err != nil {
				continue
			}
			if m := libraryName.FindStringSubmatch(filepath.Base(file)); m != nil {
				release, _ = strconv.Atoi(m[1]) // digits
				return file, release, m[2]
			}
			return file, 0, ""
		}
	}
	return "", 0, ""
}
