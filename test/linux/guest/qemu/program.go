package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// Emulator is the name of the program.
const Emulator = "qemu-system-x86_64"

// Plain returns the machine's own emulator, whatever devices it has.
func Plain() *Program { return &Program{path: Emulator} }

// A Program is an emulator for x86-64.
type Program struct {
	Version string   // as QEMU prints it
	path    string   // of the program, or of the dynamic loader that runs it
	args    []string // before those of the caller
	env     []string // in addition to the environment
}

// Command returns a command that runs the emulator. It is killed when ctx ends.
func (p *Program) Command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.path, append(slices.Clip(p.args), args...)...)
	c.Env = append(os.Environ(), p.env...)
	return c
}

// check verifies that the program runs and has the device, and sets its version.
func (p *Program) check(ctx context.Context) error {
	b, err := p.Command(ctx, "-device", "vfio-user-pci,help").CombinedOutput()
	// Emulators without the device may report success.
	if err == nil && !bytes.Contains(b, []byte("socket=")) {
		err = errors.New("unknown device")
	}
	if err != nil {
		return fmt.Errorf("qemu: %s has no device vfio-user-pci: %w: %s", p.path, err, firstLine(b))
	}
	b, err = p.Command(ctx, "--version").Output()
	if err != nil {
		return fmt.Errorf("qemu: %s --version: %w", p.path, err)
	}
	p.Version = firstLine(b)
	return nil
}
