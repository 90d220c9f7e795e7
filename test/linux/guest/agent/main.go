//go:build linux

// Command agent is the first and only resident process of a test guest. As PID 1 it mounts what programs expect, loads
// the modules that the image lists, configures the network and the rxe device as the host asks, and then runs the
// host's commands. It ends the guest when the host closes the channel. (Orphans are not reaped: a guest lives for
// minutes.)
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"ciddk/test/linux/guest/channel"
)

func main() {
	if len(os.Args) > 1 && os.Getpid() != 1 {
		if err := tool(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "agent: runs as the init process of a test guest only")
		os.Exit(2)
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err) // the serial console, which the host quotes
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // with qemu -no-reboot: qemu exits
}

// tool executes a command that would otherwise need a further program in the image.
func tool(name string, args []string) error {
	switch name {
	case "cat":
		return cat(args)
	case "load":
		return loadFiles(args)
	case "unload":
		return unload(args)
	case "dmesg":
		return dmesg()
	case "mkdir":
		return mkdir(args)
	case "put":
		return put(args)
	}
	return fmt.Errorf("agent: unknown command %q (cat, dmesg, load, mkdir, put, unload)", name)
}

func cat(paths []string) error {
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// serve runs until the host closes the channel.
func serve() error {
	if err := mountAll(); err != nil {
		return err
	}
	if err := loadModules("/etc/modules"); err != nil {
		return err
	}
	port, err := openPort(channel.PortName)
	if err != nil {
		return err
	}
	w := &writer{w: port}
	hello, err := setup(port)
	if err != nil {
		return errors.Join(err, w.send(channel.Frame{Type: channel.Failed, Body: []byte(err.Error())}))
	}
	if err := w.sendJSON(0, channel.Ready, hello); err != nil {
		return err
	}
	return run(port, w)
}

func setup(port io.Reader) (channel.Hello, error) {
	var c channel.Config
	if err := readJSON(port, channel.Setup, &c); err != nil {
		return channel.Hello{}, err
	}
	if err := configure(c); err != nil {
		return channel.Hello{}, err
	}
	return hello(c)
}
