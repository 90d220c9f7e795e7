package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"ciddk/kproxy/native"
)

type serveCmd struct {
	Config  string   `help:"Configuration file; see 'go doc ciddk/cmd/ddkd'." type:"path" placeholder:"FILE"`
	Socket  string   `help:"Socket of the daemon." placeholder:"PATH"`
	Mode    string   `help:"Mode of the socket: who may connect. Default: 0660." placeholder:"OCTAL"`
	Adapter []string `help:"An adapter; the keys are listed above." sep:"none" placeholder:"KEY=VALUE,…"`
	Log     string   `help:"debug, info, warn or error. Default: info." placeholder:"LEVEL"`

	drivers []Driver
}

// Help returns the details of the command's help text.
func (s *serveCmd) Help() string { return help(s.drivers) }

// merged returns the configuration of the file and the flags, and its adapters.
func (s *serveCmd) merged() (*config, []adapter, error) {
	c := new(config)
	if s.Config != "" {
		var err error
		if c, err = readConfig(s.Config); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range []struct {
		flag string
		to   *string
	}{{s.Socket, &c.Socket}, {s.Mode, &c.Mode}, {s.Log, &c.Log}} {
		if f.flag != "" {
			*f.to = f.flag
		}
	}
	for _, text := range s.Adapter {
		a, err := parseAdapter(text)
		if err != nil {
			return nil, nil, err
		}
		c.Adapters = append(c.Adapters, a)
	}
	adapters, err := c.check(s.drivers)
	return c, adapters, err
}

// Run serves clients until ctx ends.
func (s *serveCmd) Run(ctx context.Context, out *logs) error {
	c, adapters, err := s.merged()
	if err != nil {
		return err
	}
	level, err := c.level()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(out.w, &slog.HandlerOptions{Level: level}))
	l, err := listen(c)
	if err != nil {
		return err
	}
	defer l.Close()
	d, err := start(ctx, c, adapters, log)
	if err != nil {
		return err
	}
	stopped := context.AfterFunc(ctx, func() { l.Close() })
	defer stopped()
	log.Info("ready", "socket", c.Socket, "mode", c.Mode, "pid", os.Getpid())
	err = d.srv.Serve(l)
	log.Info("stopping")
	return errors.Join(err, d.stop())
}

// listen creates the socket. A socket that an earlier daemon left behind is replaced; that of a running one is not.
func listen(c *config) (*net.UnixListener, error) {
	mode, err := c.fileMode()
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(c.Socket); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s exists and is no socket; remove it, or choose another path with --socket",
				c.Socket)
		}
		if conn, err := native.Dial(c.Socket, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("a daemon is running at %s; stop it, or choose another path with --socket", c.Socket)
		}
		if err := os.Remove(c.Socket); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(c.Socket), 0o755); err != nil {
		return nil, fmt.Errorf("%w (choose a path in a writable directory with --socket)", err)
	}
	l, err := listenPrivate(c.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w (choose another path with --socket)", err)
	}
	if err := os.Chmod(c.Socket, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
