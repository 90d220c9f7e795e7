package nldev

import (
	"errors"
	"syscall"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/uverbs"
	"ciddk/kproxy"
)

// Path is the path of the file that a carrier opens for a netlink socket.
const Path = "netlink/rdma"

// Config describes a front end. All fields are required.
type Config struct {
	Devices *uverbs.FrontEnd
	Core    *kproxy.Server
}

// FrontEnd implements RDMA netlink. It implements devices.FrontEnd.
type FrontEnd struct{ cfg Config }

var _ devices.FrontEnd = (*FrontEnd)(nil)

// New returns a front end.
func New(cfg Config) (*FrontEnd, error) {
	if cfg.Devices == nil || cfg.Core == nil {
		return nil, errors.New("nldev: Config.Devices or Config.Core is nil")
	}
	return &FrontEnd{cfg}, nil
}

// Tree returns no files.
func (n *FrontEnd) Tree() []devices.Entry { return nil }

// Open opens a socket. Error: ENOENT.
func (n *FrontEnd) Open(name string, _ kproxy.Peer) (devices.File, error) {
	if name != Path {
		return nil, syscall.ENOENT
	}
	return &Socket{front: n}, nil
}

// Socket is a netlink socket. It implements devices.Dialog.
type Socket struct{ front *FrontEnd }

var _ devices.Dialog = (*Socket)(nil)

// Device returns zeros: a socket is no device.
func (s *Socket) Device() (major, minor uint32) { return 0, 0 }

// Call fails.
func (s *Socket) Call(*devices.Request) *devices.Reply { return devices.Fail(syscall.EINVAL) }

// Bell does nothing.
func (s *Socket) Bell() {}

// Close does nothing: a socket has no state.
func (s *Socket) Close() {}

// Datagram executes the requests of a datagram, one after the other.
func (s *Socket) Datagram(b []byte, send func([]byte) error) error {
	for {
		h, rest, ok := next(b)
		if !ok {
			return nil
		}
		for _, r := range s.front.execute(&h) {
			if err := send(r); err != nil {
				return err
			}
		}
		b = rest
	}
}
