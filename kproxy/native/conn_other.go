//go:build !linux

package native

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"ciddk/internal/passedfd"
)

// errSystem is the error of every connection on a system without SOCK_SEQPACKET sockets and their credentials.
var errSystem = fmt.Errorf("native: connections to a daemon need Linux: %w", errors.ErrUnsupported)

// Conn is one end of a connection. None can be made on this system.
type Conn struct{}

// Dial fails: see errSystem.
func Dial(string, time.Duration) (*Conn, error) { return nil, errSystem }

// Listen fails: see errSystem.
func Listen(string) (*net.UnixListener, error) { return nil, errSystem }

// Pair fails: see errSystem.
func Pair() (a, b *Conn, err error) { return nil, nil, errSystem }

// FilePair fails: see errSystem.
func FilePair() (*Conn, *os.File, error) { return nil, nil, errSystem }

// NewConn fails: see errSystem.
func NewConn(*net.UnixConn) (*Conn, error) { return nil, errSystem }

// FileConn fails: see errSystem.
func FileConn(*os.File) (*Conn, error) { return nil, errSystem }

// Peer fails: see errSystem.
func (*Conn) Peer() (pid, uid, gid int, err error) { return 0, 0, 0, errSystem }

// Address returns "".
func (*Conn) Address() string { return "" }

// Interrupt fails: see errSystem.
func (*Conn) Interrupt() error { return errSystem }

// WatchPeer does nothing.
func (*Conn) WatchPeer(func()) (stop func()) { return func() {} }

// Send fails: see errSystem.
func (*Conn) Send([]byte, []*os.File) error { return errSystem }

// SendTo fails: see errSystem.
func (*Conn) SendTo(*os.File, []byte, []*os.File) (kept bool, err error) { return false, errSystem }

// InFlight returns zeros.
func InFlight() (count int, refused uint64) { return 0, 0 }

// TrySend fails: see errSystem.
func (*Conn) TrySend([]byte) error { return errSystem }

// Recv fails: see errSystem.
func (*Conn) Recv([]byte) (int, []*os.File, error) { return 0, nil, errSystem }

// RecvPooled fails: see errSystem.
func (*Conn) RecvPooled(*sync.Pool) (*[]byte, int, []*os.File, error) { return nil, 0, nil, errSystem }

// Guard does nothing.
func (*Conn) Guard(*passedfd.Discarder) {}

// Discard closes descriptors.
func (*Conn) Discard(files []*os.File) { CloseFiles(files) }

// CloseSend fails: see errSystem.
func (*Conn) CloseSend() error { return errSystem }

// Close does nothing.
func (*Conn) Close() error { return nil }
