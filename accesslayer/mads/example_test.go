package mads_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

// Two HCAs on a link, with one access layer: an agent on one HCA sends a request to an agent on the other.
func Example() {
	link := direct.NewLink()
	al := accesslayer.New(accesslayer.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer al.Close()
	for range 2 {
		hca, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(link, direct.Config{}))}})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer hca.Close()
		if err := al.Register(hca); err != nil {
			fmt.Println(err)
			return
		}
	}
	m, err := mads.New(al, mads.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	here, there := m.Ports()[0], m.Ports()[1]

	// The server answers Get of a vendor's class. It sends the response to the source of the request.
	var server mads.Agent
	server, err = m.Register(mads.AgentConfig{Port: there, Class: mad.ClassVendor1First, Version: 1,
		Methods: []mad.Method{mad.Get},
		OnReceive: func(r *mads.Received) {
			h := r.Header()
			h.Method |= mad.ResponseMask
			h.Put(r.MAD)
			copy(r.MAD[mad.HeaderLen:], "good day")
			if err := server.Send(&mads.Message{To: r.From, MAD: r.MAD}); err != nil {
				fmt.Println(err)
			}
		}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := m.Register(mads.AgentConfig{Port: here})
	if err != nil {
		fmt.Println(err)
		return
	}
	adapter, err := al.Adapter(there.CA)
	if err != nil {
		fmt.Println(err)
		return
	}
	to := mads.Address{QPN: 1, AV: ci.AVAttr{DLID: adapter.Attr().Ports[0].LID}}
	datagram := make([]byte, mad.Size)
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassVendor1First, ClassVersion: 1,
		Method: mad.Get, TID: 5}
	h.Put(datagram)
	r, err := client.Do(context.Background(), &mads.Message{To: to, MAD: datagram, Retries: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	h = r.Header()
	fmt.Printf("%v of %v, transaction %d: %s\n", h.Method, h.Class, h.TID, r.MAD[mad.HeaderLen:mad.HeaderLen+8])
	// Output: GetResp of Vendor(0x09), transaction 5: good day
}
