package bench

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A program measures a turn with two processes of another program. Both run on this machine.
type program interface {
	// run measures ops operations. at is what they need of the rig.
	run(at surroundings, ops int, timed bool) (Sample, error)
}

// surroundings are what a program needs of the rig.
type surroundings struct {
	env    []string
	prefix []string // of a command line
}

// programLimit bounds one run of two programs.
const programLimit = time.Minute

// runPrograms runs a server, and a client that connects to it, and returns the text of the client. args are those of
// both. refused is in the text of a client whose server does not listen yet.
func (s surroundings) runPrograms(args []string, refused string) (text string, err error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	line := append(append(slices.Clip(s.prefix), args...), "-p", strconv.Itoa(port))
	command := func(more ...string) (*exec.Cmd, *bytes.Buffer) {
		c := exec.CommandContext(ctx, line[0], append(line[1:len(line):len(line)], more...)...)
		c.Env = s.env
		c.WaitDelay = time.Second
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		return c, &out
	}
	server, out := command()
	if err := server.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		if err != nil {
			cancel()
		}
		if e := <-ended; e != nil && (err == nil || ctx.Err() == nil) {
			err = fmt.Errorf("%s: %w: %s", args[0], e, out)
		}
	}()
	for { // until the server listens
		client, text := command("127.0.0.1")
		err := client.Run()
		if err == nil {
			return text.String(), nil
		}
		if ctx.Err() != nil || !strings.Contains(text.String(), refused) {
			return "", fmt.Errorf("%s: %w: %s", args[0], err, text)
		}
		select {
		case e := <-ended:
			ended <- e
			return "", fmt.Errorf("%s: the server has ended: %w: %s", args[0], e, out)
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}
