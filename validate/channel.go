package validate

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// channelVar is the environment variable that names the two descriptors of a worker's channel. The worker reads
// commands from the first and writes results to the second. Standard output and standard error are left to the driver.
const channelVar = "DDK_VALIDATE_CHANNEL"

// newNonce returns the word that begins each event of one worker. It reaches the worker on the channel, not in its
// environment or arguments, so nothing that a driver prints contains it by accident.
func newNonce() string { return rand.Text() }

// parentChannel is the parent's end of a worker's channel.
type parentChannel struct {
	commands *os.File // to the worker
	results  *os.File // from the worker
	theirs   []*os.File
}

// newParentChannel creates the pipes and adds the worker's ends to cmd, which must not have been started.
func newParentChannel(cmd *exec.Cmd) (*parentChannel, error) {
	theirIn, commands, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	results, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), commands.Close())
	}
	c := &parentChannel{commands: commands, results: results, theirs: []*os.File{theirIn, theirOut}}
	names, err := inherit(cmd, theirIn, theirOut)
	if err != nil {
		return nil, errors.Join(err, c.closeTheirs(), c.close())
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, channelVar+"="+names)
	return c, nil
}

// closeTheirs closes the worker's ends, once the worker has them or could not be started.
func (p *parentChannel) closeTheirs() error {
	return errors.Join(p.theirs[0].Close(), p.theirs[1].Close())
}

// close closes the parent's ends.
func (p *parentChannel) close() error { return errors.Join(p.commands.Close(), p.results.Close()) }

// workerChannel is the worker's end.
type workerChannel struct {
	nonce string
	in    *bufio.Reader
	out   io.Writer
}

// openWorkerChannel opens the channel that the environment names. It removes the variable from the environment, so that
// processes started by the driver do not act as workers.
func openWorkerChannel() (*workerChannel, error) {
	names := os.Getenv(channelVar)
	if names == "" {
		return nil, fmt.Errorf("worker: %s is not set: a worker is started by the certifier, not by hand", channelVar)
	}
	if err := os.Unsetenv(channelVar); err != nil {
		return nil, err
	}
	var in, out uintptr
	if _, err := fmt.Sscanf(names, "%d,%d", &in, &out); err != nil {
		return nil, fmt.Errorf("worker: %s=%q: %w", channelVar, names, err)
	}
	c := &workerChannel{in: bufio.NewReader(inherited(in, "commands")), out: inherited(out, "results")}
	nonce, err := c.in.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("worker: no greeting from the parent: %w", err)
	}
	c.nonce = strings.TrimSpace(nonce)
	return c, nil
}
