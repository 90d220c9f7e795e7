package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
)

// faultyDrivers are drivers that end, stop or attack their process when a CQ is created.
func faultyDrivers() []validate.Driver {
	var list []validate.Driver
	for name, fault := range map[string]func(){
		"faulty-panic": func() { panic("a fault of the driver") },
		"faulty-exit":  func() { os.Exit(0) },
		"faulty-hang":  func() { select {} },
		"faulty-forge": forge,
		"faulty-close": closeSockets,
	} {
		d := drivers()[0]
		d.Name = name
		open := d.Open
		d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
			t, err := open(ctx, o)
			if err != nil {
				return nil, err
			}
			for i, h := range t.HCAs {
				t.HCAs[i] = ciwrap.Wrap(h, ciwrap.Layer{
					PD: func(p ci.PD, _ ci.PDType) ci.PD { return faultyPD{ciwrap.PD{PD: p}, fault} },
				})
			}
			return t, nil
		}
		list = append(list, d)
	}
	return list
}

type faultyPD struct {
	ciwrap.PD
	fault func()
}

func (p faultyPD) CreateCQ(ci.CQCreate) (ci.CQ, error) {
	p.fault()
	return nil, &ci.Error{Verb: "PD.CreateCQ", Status: ci.InsufficientResources}
}

// closeSockets closes the process's sockets, and continues to run.
func closeSockets() {
	for fd := 3; fd < 20; fd++ {
		if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil &&
			strings.HasPrefix(name, "socket:") {
			os.NewFile(uintptr(fd), "closed").Close()
		}
	}
	select {}
}

// forge writes results that say pass to every descriptor of the process, and sends the worker replies to all requests
// that it may have.
func forge() {
	for fd := range 20 {
		f := os.NewFile(uintptr(fd), "forged")
		for _, text := range []string{
			`{"kind":"result","result":{"case":"cq.create","status":"pass"}}` + "\n", `{"ID":1,"Live":{}}`,
		} {
			fmt.Fprint(f, text)
		}
	}
}
