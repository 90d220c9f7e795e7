package ual

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
)

// DefaultPath is the socket of a daemon that has no other one configured.
const DefaultPath = "/run/ddkd/socket"

// Config describes a connection. The zero value connects to the default socket.
type Config struct {
	Path    string        // of the daemon's socket; "": $DDKD_SOCKET, then DefaultPath
	Name    string        // of this program, for the daemon's logs and status; "": that of the executable
	Timeout time.Duration // of connecting; 0: 10 seconds
}

// ErrDisconnected is wrapped by the error of every verb after the connection to the daemon was lost or closed.
var ErrDisconnected = errors.New("ual: the connection to the daemon was lost or closed")

// Client is a connection to a daemon. Its methods may be called concurrently.
type Client struct {
	c      *native.Conn
	server schema.HelloReply

	mu     sync.Mutex
	err    error         // the connection is lost
	calls  []*call       // by slot of their id; nil: free
	free   []uint32      // slots
	lost   chan struct{} // closed with err
	tokens tokens
	wait   sync.WaitGroup // of the reader and of event goroutines
}

// Dial connects to a daemon.
func Dial(cfg Config) (*Client, error) {
	path := cmp.Or(cfg.Path, os.Getenv("DDKD_SOCKET"), DefaultPath)
	conn, err := native.Dial(path, cmp.Or(cfg.Timeout, 10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("ual: %w", err)
	}
	return New(conn, cfg)
}

// New returns a client over a connection that was made in another way, which it then owns. Config.Path is ignored.
func New(conn *native.Conn, cfg Config) (*Client, error) {
	c := &Client{c: conn, lost: make(chan struct{})}
	c.wait.Go(c.read)
	hello := &schema.Hello{Version: schema.Version, PointerBits: bits.UintSize, Name: cfg.Name}
	if hello.Name == "" {
		hello.Name = filepath.Base(os.Args[0])
	}
	hello.Name = hello.Name[:min(len(hello.Name), schema.MaxText)]
	if err := c.do(schema.CmdHello, hello, nil, &c.server); err != nil {
		c.Close()
		return nil, err
	}
	permitCopies(int(c.server.PID))
	return c, nil
}

// Close closes the connection: the daemon destroys everything that was made with it. Verbs in progress return
// ErrDisconnected. It returns when no callback runs or will run, and must not be called from one.
func (c *Client) Close() error {
	c.c.Close()
	c.wait.Wait()
	return nil
}

// HCAs returns the adapters that are present.
func (c *Client) HCAs() ([]ci.HCA, error) {
	var r schema.ListHCAsReply
	if err := c.do(schema.CmdListHCAs, &schema.None{}, nil, &r); err != nil {
		return nil, err
	}
	var hcas []ci.HCA
	for _, i := range r.HCAs {
		hcas = append(hcas, &hca{c: c, info: ci.HCAInfo{GUID: i.GUID, DriverID: i.DriverID, VendorID: i.VendorID,
			DeviceID: i.DeviceID, Revision: uint16(i.Revision), Library: i.Library, Version: i.Version}})
	}
	return hcas, nil
}

// HCA returns the adapter with a GUID. Status: NotFound.
func (c *Client) HCA(guid ci.GUID) (ci.HCA, error) {
	hcas, err := c.HCAs()
	if err != nil {
		return nil, err
	}
	for _, h := range hcas {
		if h.Info().GUID == guid {
			return h, nil
		}
	}
	return nil, &ci.Error{Verb: "ual.Client.HCA", Status: ci.NotFound,
		Detail: fmt.Sprintf("the daemon has no adapter with GUID %016x", uint64(guid))}
}
