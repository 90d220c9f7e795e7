package usersuite

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/ual"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// clientSteps are the moments at which a client process ends. Except for the last one, it is killed.
var clientSteps = []string{
	"before the create", "in the pre hook", "in the driver", "in the post hook", "with objects", "posting and polling",
	withChild, "by itself",
}

// withChild is a step at which another process has the socket, too, and lives on. asChild is that process.
const withChild, asChild = "with a child that has the socket", "as a child"

// clientVar is the environment variable of a client process: the step at which it stops, the socket and the adapter.
const clientVar = "DDK_VALIDATE_CLIENT"

// init makes this program a client process if runClient has started it.
func init() {
	if v := os.Getenv(clientVar); v != "" {
		say(clientMain(strings.Split(v, "|")))
		os.Exit(1)
	}
}

// say writes a line to the certifier, which reads the standard output of the process.
func say(line any) { fmt.Fprintln(os.Stdout, line) }

// stopped reports that the process has reached its step, and waits to be killed.
func stopped() {
	say(clientReady)
	select {}
}

const clientReady = "ready"

// clientMain creates a CQ and other objects, as an application does, and stops at a step.
func clientMain(args []string) error {
	if len(args) != 3 {
		return errors.New("want a step, a socket and a GUID")
	}
	step := args[0]
	if step == asChild {
		<-time.NewTimer(time.Minute).C // the certifier ends it before
		return nil
	}
	guid, err := strconv.ParseUint(args[2], 16, 64)
	if err != nil {
		return err
	}
	lib := &library{trace: new(trace)}
	lib.before(func(verb string, _ any, _ *ci.UserBuffer) error {
		if verb == "CreateCQ" && step == "in the pre hook" {
			stopped()
		}
		return nil
	})
	lib.after(func(verb string, _ any, _ *ci.UserBuffer, _ error) error {
		if verb == "CreateCQ" && step == "in the post hook" {
			stopped()
		}
		return nil
	})
	conn, child, err := clientConn(step, args[1])
	if err != nil {
		return err
	}
	c, err := ual.New(conn, ual.Config{Name: "client", Libraries: []*ci.UserLibrary{lib.vendor()}})
	if err != nil {
		return err
	}
	h, err := c.HCA(ci.GUID(guid))
	if err != nil {
		return err
	}
	ca, err := h.OpenCA(ci.GUID(guid), func(ci.Event) {}, nil)
	if err != nil {
		return err
	}
	return clientObjects(ca, step, child)
}

// clientConn connects to the daemon, and starts a child with the socket if the step is withChild.
func clientConn(step, path string) (conn *native.Conn, child int, err error) {
	u, err := net.DialUnix(native.Network, nil, &net.UnixAddr{Name: path, Net: native.Network})
	if err != nil {
		return nil, 0, err
	}
	if step == withChild {
		f, err := u.File()
		if err != nil {
			return nil, 0, err
		}
		exe, err := os.Executable()
		if err != nil {
			return nil, 0, err
		}
		c := exec.Command(exe)
		c.Env = append(os.Environ(), clientVar+"="+asChild+"||0")
		c.ExtraFiles = []*os.File{f}
		if err := c.Start(); err != nil {
			return nil, 0, err
		}
		child = c.Process.Pid
	}
	conn, err = native.NewConn(u)
	return conn, child, err
}

// clientObjects creates objects and uses them.
func clientObjects(ca ci.CA, step string, child int) error {
	pd, err := ca.AllocatePD(ci.PDNormal)
	if err != nil {
		return err
	}
	if step == "before the create" {
		stopped()
	}
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 16, OnCompletion: func(any) {}})
	if err != nil {
		return err
	}
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096)), Access: ci.LocalWrite})
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}})
	if err != nil {
		return err
	}
	switch step {
	case "with objects":
		stopped()
	case withChild:
		say(fmt.Sprintf("%s %d", clientReady, child))
		select {}
	case "by itself":
		say(clientReady)
		os.Exit(0)
	}
	return clientTraffic(qp, cq, mr.Region())
}

// clientTraffic posts receives and polls their completions until the process is killed.
func clientTraffic(qp ci.QP, cq ci.CQ, r ci.Region) error {
	var wc [4]ci.WC
	for round := 0; ; round++ {
		if round == 10 {
			say(clientReady)
		}
		err := qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1})
		if err == nil {
			_, err = qp.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{r.SGE(0, 8)}}, {SGL: []ci.SGE{r.SGE(8, 8)}}})
		}
		if err == nil {
			err = qp.Modify(ci.ToError())
		}
		for n := 0; err == nil && n < 2; {
			var got int
			got, err = cq.Poll(wc[:])
			n += got
		}
		if err == nil {
			err = qp.Modify(ci.ToReset())
		}
		if err != nil {
			return err
		}
	}
}

// runClient runs a client process, and kills it at a step. end ends its child, if it has one.
func (s *stage) runClient(step string) (end func()) {
	t := s.t
	path := "@ddk-validate-" + rand.Text()
	l, err := native.Listen(path)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("connections between processes need Linux")
	}
	if err != nil {
		t.Harness("a socket for client processes: %v", err)
	}
	defer l.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Harness("the path of this program: %v", err)
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%x", clientVar, step, path, uint64(s.guids[0])))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Harness("a pipe: %v", err)
	}
	killed := make(chan struct{})
	if step == "in the driver" {
		s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
			reply(ub)
			if verb == "CreateCQ" {
				_ = c.Process.Kill() // the case waits for its end
				<-killed
			}
			return nil
		})
		defer s.probe.handle(nil)
	}
	if err := c.Start(); err != nil {
		t.Harness("a client process: %v", err)
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Harness("the connection of a client process: %v", err)
	}
	daemon, err := native.NewConn(conn)
	if err != nil {
		t.Harness("the connection of a client process: %v", err)
	}
	s.serve(daemon)
	line, _ := bufio.NewReader(out).ReadString('\n')
	end = func() {}
	if pid, isReady := strings.CutPrefix(strings.TrimSpace(line), clientReady); isReady {
		end = sync.OnceFunc(func() { endChild(pid) })
		t.Cleanup(end)
	} else if step != "in the driver" {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
		t.Fail(validate.Failure{Where: "a client process that stops " + step, Expected: "the step", Got: line})
	}
	_ = c.Process.Kill() // it may have ended by itself
	_ = c.Wait()         // killed
	close(killed)
	kit.True(t, c.ProcessState != nil, "the client process", "its end", "nothing")
	return end
}

// endChild kills the process of a number, if there is one.
func endChild(number string) {
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		return
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may have ended
	}
}

// serve serves a connection to the daemon, through the relay with a fault if there is one.
func (s *stage) serve(c *native.Conn) {
	if s.fault.Relay == nil {
		s.srv.ServeConn(c)
		return
	}
	ours, daemon := s.pair()
	s.srv.ServeConn(daemon)
	s.relay.Go(func() { s.fault.Relay(c, ours) })
}
