package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"ciddk/internal/private"
)

// SocketPath returns the path of a socket of the fabric with a name: ddk-fabric-NAME-USE.sock in $XDG_RUNTIME_DIR, or
// else in the folder for temporary files. The socket that ddk-fabric serves to Dial has the use "join". A name with a
// slash is a path already, and is returned.
func SocketPath(name, use string) string {
	if isPath(name) {
		return name
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "ddk-fabric-"+name+"-"+use+".sock")
}

func isPath(name string) bool { return filepath.Base(name) != name }

// Connect connects to the socket of SocketPath. Errors: nobody listens there; the fabric with that name belongs to
// another user than this one or root.
func Connect(ctx context.Context, name, use string) (net.Conn, error) {
	path := SocketPath(name, use)
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("join: %w (is the fabric running, as with ddk-fabric serve?)", err)
	}
	if isPath(name) { // it is the choice of the user
		return c, nil
	}
	if err := private.CheckPeer(c); err != nil {
		return nil, errors.Join(fmt.Errorf("join: %s: %w (to join it anyway, name its path)", path, err), c.Close())
	}
	return c, nil
}

// DialName is Dial for the fabric with a name, as Connect finds it.
func DialName(ctx context.Context, name, node string, port int) (*Port, error) {
	c, err := Connect(ctx, name, "join")
	if err != nil {
		return nil, err
	}
	return Join(ctx, c, node, port)
}
