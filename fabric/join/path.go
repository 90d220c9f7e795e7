package join

import (
	"os"
	"path/filepath"
)

// SocketPath returns the path of a socket of the fabric with a name: ddk-fabric-NAME-USE.sock in $XDG_RUNTIME_DIR, or
// else in the folder for temporary files. The socket that ddk-fabric serves to Dial has the use "join". A name with a
// slash is a path already, and is returned.
func SocketPath(name, use string) string {
	if filepath.Base(name) != name {
		return name
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "ddk-fabric-"+name+"-"+use+".sock")
}
