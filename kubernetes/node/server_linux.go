package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ciddk/internal/private"
)

// network keeps the boundaries of messages.
const network = "unixpacket"

// maxMessage is the size of a message.
const maxMessage = 64 << 10

// The operations of a request.
const (
	opPrepare   = "prepare"
	opUnprepare = "unprepare"
	opAttach    = "attach" // with two descriptors: that of the network namespace and a pidfd
)

type request struct {
	Op    string `json:"op"`
	Claim Claim  `json:"claim"`
}

type reply struct {
	Error string `json:"error,omitempty"`
}

func socketPath(dir string) string { return filepath.Join(dir, "node.sock") }

// Serve serves hooks and Clients of this user and of root until ctx ends. Daemons go on then.
func (n *Node) Serve(ctx context.Context) error {
	path := socketPath(n.cfg.Dir)
	l, err := private.Replace(network, path)
	if err != nil {
		return err
	}
	end := context.AfterFunc(ctx, func() { l.Close() })
	defer end()
	n.cfg.Log.Info("ready", "socket", path, "claims", len(n.Claims()))
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return n.Close()
		}
		if err != nil {
			return errors.Join(err, n.Close())
		}
		n.spawn(c, func() { n.serve(c) })
	}
}

// serve executes the requests of a connection.
func (n *Node) serve(c *net.UnixConn) {
	if err := private.CheckPeer(c); err != nil {
		n.cfg.Log.Warn("refused", "error", err)
		return
	}
	for {
		b, files, err := receive(c)
		if err != nil {
			return // the peer has closed the connection
		}
		var r request
		if err = json.Unmarshal(b, &r); err == nil {
			err = n.execute(&r, files)
		}
		for _, f := range files {
			f.Close()
		}
		answer := reply{}
		if err != nil {
			n.cfg.Log.Error(r.Op, "claim", r.Claim.ID, "error", err)
			answer.Error = err.Error()
		}
		if send(c, answer) != nil {
			return
		}
	}
}

// execute executes a request.
func (n *Node) execute(r *request, files []*os.File) error {
	switch {
	case r.Op == opPrepare && len(files) == 0:
		return n.Prepare(r.Claim)
	case r.Op == opUnprepare && len(files) == 0:
		return n.Unprepare(r.Claim.ID)
	case r.Op == opAttach && len(files) == 2:
		return n.Attach(r.Claim.ID, files[0], files[1])
	}
	return fmt.Errorf("no operation %q with %d descriptors", r.Op, len(files))
}

// receive returns a message and its descriptors.
func receive(c *net.UnixConn) ([]byte, []*os.File, error) {
	const maxFiles = 4
	b, control := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(maxFiles*4))
	size, controlSize, flags, _, err := c.ReadMsgUnix(b, control)
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	list, err := unix.ParseSocketControlMessage(control[:controlSize])
	for i := range list {
		fds, e := unix.ParseUnixRights(&list[i])
		err = errors.Join(err, e)
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	if err == nil && (size == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0) {
		err = errors.New("the message is empty or too long")
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
	}
	return b[:size], files, err
}

// send sends a message with descriptors.
func send(c *net.UnixConn, message any, files ...*os.File) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(b, rights, nil)
	return err
}
