package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// toolFlag is the first argument of this program when the go command runs it as -toolexec. A file name and the tool
// with its arguments follow.
const toolFlag = "-tool"

// runTool runs a tool of the go command and appends its processor time to a file. It returns the exit status.
func runTool(file string, args []string) int {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if c.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "check: tool of Go:", err)
		return exitFailed
	}
	if !slices.Contains(args, "-V=full") { // a question that go asks of each tool
		name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
		if f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0); err == nil {
			fmt.Fprintf(f, "%s %d\n", name, processTime(c.ProcessState))
			_ = f.Close()
		}
	}
	return max(c.ProcessState.ExitCode(), 0)
}

// processTime returns the processor time of a program and of its children.
func processTime(p *os.ProcessState) time.Duration { return p.UserTime() + p.SystemTime() }

// cpu counts the processor time of programs. What the go command does itself counts as test.
type cpu struct {
	compile, link, vet, test time.Duration
	numLinks                 int
}

// total returns the sum.
func (c cpu) total() time.Duration { return c.compile + c.link + c.vet + c.test }

func (c cpu) add(d cpu) cpu {
	return cpu{c.compile + d.compile, c.link + d.link, c.vet + d.vet, c.test + d.test, c.numLinks + d.numLinks}
}

// String returns the seconds of each kind that is not zero.
func (c cpu) String() string {
	var l []string
	for _, k := range []struct {
		name string
		time time.Duration
	}{{"compile", c.compile}, {"vet", c.vet}, {fmt.Sprintf("link %d programs", c.numLinks), c.link}, {"run", c.test}} {
		if s := k.time.Round(time.Second); s > 0 {
			l = append(l, fmt.Sprintf("%s %ds", k.name, s/time.Second))
		}
	}
	return strings.Join(l, ", ")
}

// parseTools returns the times that runTool has written to a file.
func parseTools(text []byte) (c cpu) {
	for line := range bytes.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue
		}
		switch d := time.Duration(n); name {
		case "link":
			c.link += d
			c.numLinks++
		case "vet":
			c.vet += d
		default: // compile, asm, cgo, pack
			c.compile += d
		}
	}
	return c
}

// run runs a prepared program and counts its processor time.
func (r *runner) run(c *exec.Cmd) error {
	file, err := r.measureTools(c)
	if err != nil {
		return err
	}
	err = c.Run()
	var tools cpu
	if file != "" {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr, os.Remove(file))
		tools = parseTools(text)
	}
	if c.ProcessState != nil {
		tools.test = max(processTime(c.ProcessState)-tools.total(), 0)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cpu = r.cpu.add(tools)
	return err
}

// measureTools lets the go command run its tools through this program, and returns the file with their times, or ""
// for another command.
func (r *runner) measureTools(c *exec.Cmd) (file string, err error) {
	if r.self == "" || c.Args[0] != "go" || !slices.Contains([]string{"build", "vet", "test"}, c.Args[1]) {
		return "", nil
	}
	f, err := os.CreateTemp("", "ddk-check-tools-")
	if err != nil {
		return "", err
	}
	c.Args = slices.Insert(c.Args, 2, fmt.Sprintf("-toolexec='%s' %s '%s'", r.self, toolFlag, f.Name()))
	return f.Name(), f.Close()
}
