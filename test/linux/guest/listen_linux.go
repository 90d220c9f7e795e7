package guest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

var tcpTables = []string{"tcp", "tcp6"}

// waitListen reads a TCP table until it has a listener. It does not connect, because the server would take it for the
// peer.
func waitListen(ctx context.Context, port uint16, table func() (string, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		t, err := table()
		if err != nil {
			return err
		}
		if listens(t, port) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("guest: no process listens on TCP port %d: %w", port, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// listens reports whether the text of /proc/net/tcp (proc(5)) has a listener. Fields two to four of a row are local
// address, remote address and state, in hexadecimal; state 0A is LISTEN.
func listens(table string, port uint16) bool {
	for l := range strings.Lines(table) {
		f := strings.Fields(l)
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		_, p, ok := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(p, 16, 16)
		if ok && err == nil && uint16(n) == port {
			return true
		}
	}
	return false
}
