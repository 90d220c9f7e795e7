//go:build !linux

package main

import (
	"errors"
	"io"
)

var errLinux = errors.New("the daemon needs Linux")

func runEcho(string, io.Writer) error { return errLinux }

type echoConn struct{}

func (*echoConn) roundTrip() error { return errLinux }
func (*echoConn) close()           {}

func dialEcho(string) (*echoConn, error)    { return nil, errLinux }
func dialRawEcho(string) (*echoConn, error) { return nil, errLinux }
