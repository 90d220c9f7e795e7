package main

import (
	"fmt"
	"path/filepath"
	"time"

	"ciddk/ci"
	"ciddk/ual"
)

// session is a connection to the daemon.
type session struct {
	client *ual.Client
	ca     ci.CA
	pd     ci.PD
}

func openSessions(dir string, n int) ([]*session, error) {
	var list []*session
	for range n {
		c, err := ual.Dial(ual.Config{Path: filepath.Join(dir, socketName)})
		if err != nil {
			return nil, err
		}
		list = append(list, &session{client: c})
	}
	return list, nil
}

// fixed is the number of objects of a session without address vectors and windows: two event queues, and what
// createObjects creates.
const fixed = 2 + 1 + 1 + 4 + 4 + 8

// createObjects creates n objects in the sessions: in each, a CA, a PD, four CQs, four QPs, eight regions, and
// address vectors and memory windows. Sessions with a small share have no queues and no regions.
func createObjects(list []*session, n int) error {
	for i, s := range list {
		if err := s.create(n*(i+1)/len(list) - n*i/len(list)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) create(n int) error {
	hcas, err := s.client.HCAs()
	if err != nil || len(hcas) != 1 {
		return fmt.Errorf("%d adapters: %w", len(hcas), err)
	}
	if s.ca, err = hcas[0].OpenCA(hcas[0].Info().GUID, func(ci.Event) {}, nil); err != nil {
		return err
	}
	if s.pd, err = s.ca.AllocatePD(ci.PDNormal); err != nil {
		return err
	}
	have := 4
	if n >= fixed {
		if err := s.createQueues(); err != nil {
			return err
		}
		have = fixed
	}
	for i := range n - have {
		var err error
		if i%2 == 0 {
			_, err = s.pd.CreateAV(ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: ci.GID{15: 1}}})
		} else {
			_, err = s.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) createQueues() error {
	for range 4 {
		cq, err := s.pd.CreateCQ(ci.CQCreate{Size: 4, OnCompletion: func(any) {}})
		if err != nil {
			return err
		}
		_, err = s.pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1,
			SendSGE: 1, RecvSGE: 1}})
		if err != nil {
			return err
		}
		for range 2 {
			if _, err := s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64))}); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitSocket returns when a daemon serves a socket.
func awaitSocket(path string) error {
	for range 1000 {
		c, err := ual.Dial(ual.Config{Path: path})
		if err == nil {
			return c.Close()
		}
		<-time.After(10 * time.Millisecond)
	}
	return fmt.Errorf("no daemon at %s after 10 seconds", path)
}
