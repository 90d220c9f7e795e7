package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

type qemuCmd struct {
	Sockets []string `arg:"" name:"socket" help:"Sockets of cards. Each becomes a card of the virtual machine."`
	Memory  int      `default:"1024" help:"Memory of the virtual machine in MiB."`
}

// Run implements the command.
func (c *qemuCmd) Run(p *program) error {
	if c.Memory < 1 {
		return fmt.Errorf("--memory %d: want MiB, such as 1024", c.Memory)
	}
	text, err := commandLine(c.Memory, c.Sockets)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.out, text)
	return err
}

// commandLine returns the command line of a virtual machine with cards. The memory is shared with the model, and each
// card is behind a root port of PCI Express.
func commandLine(megabytes int, sockets []string) (string, error) {
	lines := []string{"qemu-system-x86_64 -M q35,memory-backend=ram -accel kvm -accel tcg -cpu max -smp 2",
		fmt.Sprintf("-m %d -object memory-backend-memfd,id=ram,size=%[1]dM,share=on", megabytes)}
	for i, s := range sockets {
		device, err := deviceArgument(i, s)
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("-device pcie-root-port,id=rp%d,chassis=%d,slot=%[2]d", i, i+1),
			"-device '"+device+"'")
	}
	return strings.Join(append(lines, "… (disk, network, display)"), " \\\n  "), nil
}

// deviceArgument returns the argument for the card behind root port i.
func deviceArgument(i int, socket string) (string, error) {
	path, err := filepath.Abs(socket)
	if err != nil {
		return "", err
	}
	if strings.Contains(path, "'") {
		return "", fmt.Errorf("socket %q: a path with a quotation mark cannot be part of a command line", socket)
	}
	name, err := json.Marshal(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`{"driver":"vfio-user-pci","bus":"rp%d","rombar":0,"socket":{"type":"unix","path":%s}}`, i,
			name),
		nil
}
