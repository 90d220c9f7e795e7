package ual

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// DefaultPath is the socket of a daemon that has no other one configured.
const DefaultPath = "/run/ddkd/socket"

// Config describes a connection. The zero value connects to the default socket.
type Config struct {
	Path    string        // of the daemon's socket; "": $DDKD_SOCKET, then DefaultPath
	Name    string        // of this program, for the daemon's logs and status; "": that of the executable
	Timeout time.Duration // of connecting; 0: 10 seconds

	// CallTimeout is the time in which the daemon must reply to a request. When it has passed, the client closes the
	// connection, and all verbs return ErrDisconnected. 0: DefaultCallTimeout.
	CallTimeout time.Duration
	Clock       clock.Clock // of timeouts; nil: the machine's

	// Libraries are the vendors' user libraries that the program has. One of them accompanies an adapter whose
	// HCAInfo.Library is its name. Without one, all verbs go to the daemon.
	Libraries []*ci.UserLibrary
}

// ErrDisconnected is wrapped by the error of every verb after the connection to the daemon was lost or closed.
var ErrDisconnected = errors.New("ual: the connection to the daemon was lost or closed")

// Client is a connection to a daemon. Its methods may be called concurrently.
type Client struct {
	c      *native.Conn
	server schema.HelloReply

	mu     sync.Mutex
	err    error    // the connection is lost
	calls  []*call  // by slot of their id; nil: free
	free   []uint32 // slots
	spare  []*call  // that have ended
	queues map[*eventQueue]struct{}
	libs   []*ci.UserLibrary
	pins   map[uint64]*pinned // by number
	lastID uint64             // the last number of pins
	copies copies
	tokens tokens
	deadlines

	isLost  atomic.Bool // err is set, or the daemon closes the session
	closing atomic.Bool // Close has been called
	late    atomic.Bool // the daemon did not reply to it, or to a call, in time

	wait sync.WaitGroup // of the reader and of event goroutines
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
	c := &Client{c: conn, libs: cfg.Libraries, pins: map[uint64]*pinned{}, queues: map[*eventQueue]struct{}{}}
	c.clock, c.limit = cfg.Clock, cmp.Or(cfg.CallTimeout, DefaultCallTimeout)
	if c.clock == nil {
		c.clock = clock.Real()
	}
	c.wait.Go(c.read)
	hello := &schema.Hello{Version: schema.Version, PointerBits: bits.UintSize, Name: cfg.Name}
	if hello.Name == "" {
		hello.Name = filepath.Base(os.Args[0])
	}
	hello.Name = schema.ClipText(hello.Name)
	if err := c.do(schema.CmdHello, hello, nil, &c.server); err != nil {
		c.Close()
		return nil, err
	}
	permitCopies(int(c.server.PID))
	return c, nil
}

// closeTimeout is the time in which a daemon must destroy the objects of a client that closes its connection.
const closeTimeout = 30 * time.Second

// Close closes the connection. The daemon destroys everything that was made with it. Verbs in progress return
// ErrDisconnected. Close returns when everything is destroyed and no callback runs or will run; it must not be called
// from a callback. It is idempotent. The error reports that the daemon did not reply in 30 seconds, or to an earlier
// request in time; memory that was registered then stays allocated.
func (c *Client) Close() error {
	c.closing.Store(true)
	if c.c.CloseSend() == nil {
		late := c.clock.AfterFunc(closeTimeout, func() {
			c.late.Store(true)
			c.c.Close()
		})
		defer late.Stop()
	}
	c.wait.Wait()
	if !c.late.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &ci.Error{Verb: "ual.Client.Close", Status: ci.Timeout, Detail: "the daemon still destroys the objects"}
	if h, ok := errors.AsType[*hungError](c.err); ok {
		e.Detail = h.Error()
	}
	return e
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

// Control executes an operation of the daemon itself, such as adding an adapter. The operations and their requests and
// replies are those of the program that is the daemon. Status: InvalidPermission (the process is neither root's nor of
// the daemon's user), Unsupported, or that of the operation.
func (c *Client) Control(operation string, request []byte) ([]byte, error) {
	var r schema.ControlReply
	q := &schema.Control{Operation: operation, Request: request}
	if err := c.do(schema.CmdControl, q, nil, &r); err != nil {
		return nil, err
	}
	return r.Text, nil
}

// maxStatus is the number of bytes beyond which a status has no end.
const maxStatus = 1 << 28

// Status returns the daemon's status as a JSON text. An unprivileged process sees no other clients.
func (c *Client) Status() ([]byte, error) {
	var text []byte
	for {
		var r schema.QueryStatusReply
		if err := c.do(schema.CmdStatus, &schema.QueryStatus{Offset: uint64(len(text))}, nil, &r); err != nil {
			return nil, err
		}
		if text = append(text, r.Text...); len(text) > maxStatus {
			return nil, badReply(schema.CmdStatus, errors.New("the status has no end"))
		}
		if len(r.Text) == 0 || uint64(len(text)) >= r.Total {
			return text, nil
		}
	}
}
