package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/private"
)

// A Client uses the Node of a directory in another process. It connects for each call, so that it needs no Close and
// finds a Node that was started again. Calls may be concurrent.
type Client struct {
	Dir string
}

// Prepare is Node.Prepare.
func (c Client) Prepare(claim Claim) error { return c.call(request{opPrepare, claim}) }

// Unprepare is Node.Unprepare.
func (c Client) Unprepare(id string) error { return c.call(request{opUnprepare, Claim{ID: id}}) }

// callTime is the time in which a Node must answer: longer than a daemon ends and another one starts.
const callTime = time.Minute

func (c Client) call(r request, files ...*os.File) error {
	conn, err := net.DialUnix(network, nil, &net.UnixAddr{Name: socketPath(c.Dir), Net: network})
	if err != nil {
		return fmt.Errorf("the node's part of the driver does not answer: %w", err)
	}
	defer conn.Close()
	if err := errors.Join(private.CheckPeer(conn), conn.SetDeadline(time.Now().Add(callTime))); err != nil {
		return err
	}
	if err := send(conn, r, files...); err != nil {
		return err
	}
	b, _, err := receive(conn)
	if err != nil {
		return fmt.Errorf("the node's part of the driver has ended, or takes too long: %w", err)
	}
	var answer reply
	if err := json.Unmarshal(b, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// Hook is the createRuntime hook of the OCI runtime specification for a claim. It reads the state of a container that
// is being created, and returns when the container's programs can use the adapters.
func (c Client) Hook(claim string, state io.Reader) error {
	var s struct {
		PID int `json:"pid"`
	}
	if err := json.NewDecoder(state).Decode(&s); err != nil {
		return fmt.Errorf("the state of the container: %w", err)
	}
	if s.PID <= 0 {
		return errors.New("the container has no process, as with runtimes that use virtual machines")
	}
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open of process %d: %w", s.PID, err)
	}
	process := os.NewFile(uintptr(fd), "pidfd")
	defer process.Close()
	netns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.PID))
	if err != nil {
		return err
	}
	defer netns.Close()
	return c.call(request{opAttach, Claim{ID: claim}}, netns, process)
}
