package ucm

import (
	"os"
	"strconv"
	"strings"

	"ciddk/kproxy"
)

// firstFreePort is the first port that programs without privileges may bind to (Linux: PROT_SOCK, cma_use_port).
const firstFreePort = 1024

// mayBindService reports whether a client may bind to the ports below firstFreePort: the superuser, and a process with
// CAP_NET_BIND_SERVICE in the daemon's user namespace.
func mayBindService(p kproxy.Peer) bool {
	if p.UID == 0 {
		return true
	}
	may := false
	kproxy.Traced(func() { may = hasBindService(p) })
	return may
}

// hasBindService reports whether a client has CAP_NET_BIND_SERVICE in the daemon's user namespace.
func hasBindService(p kproxy.Peer) bool {
	dir := "/proc/" + strconv.Itoa(p.PID)
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return false
	}
	if ns, err := os.Readlink(dir + "/ns/user"); err != nil || ns != own {
		return false
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(status), "\nCapEff:\t")
	digits, _, _ := strings.Cut(after, "\n")
	caps, err := strconv.ParseUint(digits, 16, 64)
	const bindService = 10 // CAP_NET_BIND_SERVICE
	return err == nil && caps>>bindService&1 != 0
}
