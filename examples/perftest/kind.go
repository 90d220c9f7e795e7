package main

import (
	"fmt"
	"strings"

	"ciddk/ci"
)

// A verb is the operation of a test.
type verb uint8

const (
	send verb = iota
	write
	read
	atomic
)

// A test is one of the programs of perftest.
type test struct {
	verb    verb
	latency bool
}

var (
	verbNames  = [...]string{"send", "write", "read", "atomic"}
	verbTitles = [...]string{"Send", "RDMA_Write", "RDMA_Read", "Atomic"}
)

func (t test) String() string {
	if t.latency {
		return verbNames[t.verb] + "_lat"
	}
	return verbNames[t.verb] + "_bw"
}

// UnmarshalText parses the name of a program, with or without its prefix.
func (t *test) UnmarshalText(b []byte) error {
	name := strings.TrimPrefix(string(b), "ib_")
	for v := range verbNames {
		for _, latency := range []bool{false, true} {
			if x := (test{verb(v), latency}); x.String() == name {
				*t = x
				return nil
			}
		}
	}
	return fmt.Errorf("%q is not a test: want send, write, read or atomic, followed by _bw or _lat", b)
}

// services returns the transport services that support the test.
func (t test) services() []service {
	switch t.verb {
	case send:
		return []service{service(ci.RC), service(ci.UC), service(ci.UD)}
	case write:
		return []service{service(ci.RC), service(ci.UC)}
	default:
		return []service{service(ci.RC)}
	}
}

// oneSided reports whether the server's program takes no part in the client's measurement.
func (t test) oneSided() bool {
	return t.verb != send && !(t.latency && t.verb == write)
}

// access returns the rights that the peer needs.
func (t test) access() ci.Access {
	switch t.verb {
	case write:
		return ci.RemoteWrite
	case read:
		return ci.RemoteRead
	case atomic:
		return ci.RemoteAtomic
	}
	return 0
}

// A service is a transport service as an option.
type service ci.QPType

func (s service) String() string { return ci.QPType(s).String() }

// UnmarshalText parses the name of a service.
func (s *service) UnmarshalText(b []byte) error {
	for _, t := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		if strings.EqualFold(t.String(), string(b)) {
			*s = service(t)
			return nil
		}
	}
	return fmt.Errorf("%q is not a transport service: want RC, UC or UD", b)
}
