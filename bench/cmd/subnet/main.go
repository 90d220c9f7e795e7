//go:build linux

// Command subnet measures software fabrics at scale.
//
//	subnet sweep --down 20,50 --up 1,50    # OpenSM brings the subnet up: time, and CPU time of both sides
//	subnet alltoall --sizes 64,256,1000    # each adapter sends each other one a packet, in virtual time
//
// sweep needs opensm and the preload library of umad2sim. alltoall sends from the link side of the ports: the engine of
// an adapter is not part of it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric"
	"ciddk/fabric/ibsim"
	"ciddk/fabric/topology"
	"ciddk/rvt"
	"ciddk/wire"
)

type sweepCmd struct {
	Down    []int         `default:"20,50" help:"Children of a switch, for each level."`
	Up      []int         `default:"1,50" help:"Parents of a node, for each level."`
	Routing string        `default:"minhop" help:"Routing engine of OpenSM."`
	Library string        `default:"/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so" help:"Preload library."`
	Timeout time.Duration `default:"5m" help:"Give up after this time."`
}

type allToAllCmd struct {
	Sizes   []int `default:"64,128,256,512,1000" help:"Numbers of adapters."`
	Payload int   `default:"256" help:"Bytes of a message."`
}

func main() {
	var c struct {
		Sweep    sweepCmd    `cmd:"" help:"OpenSM brings a fat tree up."`
		Alltoall allToAllCmd `cmd:"" help:"Each adapter sends each other one a message, in virtual time."`
	}
	k := kong.Parse(&c, kong.Description("Software fabrics at scale."))
	k.FatalIfErrorf(k.Run())
}

// Run implements the command.
func (c *sweepCmd) Run() error {
	g, err := topology.FatTree{Down: c.Down, Up: c.Up}.Generate()
	if err != nil {
		return err
	}
	f, err := fabric.New(g, fabric.Config{})
	if err != nil {
		return err
	}
	defer f.Close()
	name := fmt.Sprint("subnet-", os.Getpid())
	s, err := ibsim.Listen(f, ibsim.Config{Name: name})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	runtime.GC()
	fmt.Fprintf(os.Stdout, "%d adapters, %d switches, %d links; idle: %d goroutines, %d MB of heap\n",
		g.Count(topology.CA),
		g.Count(topology.Switch), len(g.Links), runtime.NumGoroutine(), heap()>>20)
	dir, err := os.MkdirTemp("", "subnet")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := filepath.Join(dir, "opensm.log")
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "opensm", "-R", c.Routing, "-d", "2", "-f", log)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+c.Library, "IBSIM_SOCKNAME="+name, "OSM_TMP_DIR="+dir,
		"OSM_CACHE_DIR="+dir)
	cmd.Dir = dir
	begin, own := time.Now(), processTime()
	if err := cmd.Start(); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		if b, err := os.ReadFile(log); err == nil && bytes.Contains(b, []byte("SUBNET UP")) {
			break
		}
	}
	took, own := time.Since(begin), processTime()-own
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if ctx.Err() != nil {
		return errors.New("the subnet did not come up in time")
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	theirs := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	fmt.Fprintf(os.Stdout, "SUBNET UP after %v; CPU time: %v here, %v in OpenSM (ratio %.2f)\n",
		took.Round(time.Millisecond),
		own.Round(time.Millisecond), theirs.Round(time.Millisecond), own.Seconds()/theirs.Seconds())
	return nil
}

// heap returns the bytes of live objects.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// processTime returns the CPU time of this process.
func processTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // no other error than for wrong arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counter is the receiving side of a port.
type counter struct{ packets *int }

func (c counter) Deliver(pkts []rvt.Packet, _, _ bool) { *c.packets += len(pkts) }
func (counter) FlushAcks()                             {}
func (counter) PortEvent(ci.EventType)                 {}
func (counter) Count(rvt.Counter, int)                 {}

// Run implements the command.
func (c *allToAllCmd) Run() error {
	fmt.Fprintln(os.Stdout, "adapters  messages  virtual time  real time  ns/message")
	for _, n := range c.Sizes {
		if err := c.one(n); err != nil {
			return err
		}
	}
	return nil
}

// one runs the exchange on a tree of n adapters, 16 at a leaf, with as many spines.
func (c *allToAllCmd) one(n int) error {
	leaves := (n + 15) / 16
	g, err := topology.FatTree{Down: []int{(n + leaves - 1) / leaves, leaves}, Up: []int{1, 16}}.Generate()
	if err != nil {
		return err
	}
	k := clock.NewVirtual(0)
	f, err := fabric.New(g, fabric.Config{Clock: k, Timing: true})
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Configure(); err != nil {
		return err
	}
	received := 0
	var ports []*fabric.CAPort
	for _, name := range f.Names(topology.CA)[:n] {
		p, err := f.CAPort(name, 0)
		if err == nil {
			err = p.Start(rvt.PortContext{Receiver: counter{&received}, Clock: k, Num: 1})
		}
		if err != nil {
			return err
		}
		defer func() { _ = p.Close() }()
		ports = append(ports, p)
	}
	payload := [][]byte{make([]byte, c.Payload)}
	begin, start := time.Now(), k.Elapsed()
	for shift := 1; shift < n; shift++ {
		for i, p := range ports {
			to := ports[(i+shift)%n].Attr().LID
			r, err := p.Route(&ci.AVAttr{DLID: to}, rvt.Flow{Datagram: true})
			if err != nil {
				return err
			}
			p.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff,
				DestQP: 2, N: 1,
				MTU: uint32(c.Payload), Len: uint32(c.Payload), Payload: payload, Route: r}})
		}
	}
	for received < n*(n-1) && k.Step() {
	}
	if received != n*(n-1) {
		return fmt.Errorf("%d of %d messages arrived", received, n*(n-1))
	}
	took := time.Since(begin)
	fmt.Fprintf(os.Stdout, "%8d  %8d  %12v  %9v  %10d\n", n, received, (k.Elapsed() - start).Round(time.Microsecond),
		took.Round(time.Millisecond), took.Nanoseconds()/int64(received))
	return nil
}
