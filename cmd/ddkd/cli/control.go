package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// Operations of the daemon's control socket. Requests and replies are JSON.
const (
	opAddAdapter    = "adapter add"    // Settings → adapterInfo
	opRemoveAdapter = "adapter remove" // a string, GUID or address → adapterInfo
	opListAdapters  = "adapter list"   // nothing → []adapterInfo
)

const verbAdapter = "ddkd adapter"

// adapterInfo describes an adapter that is in service.
type adapterInfo struct {
	GUID     string   `json:"guid"` // 16 hexadecimal digits
	Driver   string   `json:"driver"`
	Settings Settings `json:"settings"`
}

func (a *openAdapter) info() adapterInfo {
	return adapterInfo{GUID: a.guid(), Driver: a.driver.Name, Settings: a.settings}
}

// control executes an operation for a privileged client.
func (d *daemon) control(_ kproxy.Peer, operation string, request []byte) ([]byte, error) {
	switch operation {
	case opAddAdapter:
		var s Settings
		if err := parseRequest(request, &s); err != nil {
			return nil, err
		}
		a, err := resolve(d.drivers, s)
		if err != nil {
			return nil, &ci.Error{Verb: verbAdapter, Status: ci.InvalidParameter, Err: err}
		}
		if n := len(d.adapters.snapshot()); n >= schema.MaxHCAs {
			return nil, &ci.Error{Verb: verbAdapter, Status: ci.InsufficientResources,
				Detail: fmt.Sprintf("there are %d adapters, which is the limit", n)}
		}
		// The client's connection does not limit the adapter's life.
		x, err := d.adapters.add(context.Background(), a)
		if err != nil {
			return nil, err
		}
		return json.Marshal(x.info())
	case opRemoveAdapter:
		var name string
		if err := parseRequest(request, &name); err != nil {
			return nil, err
		}
		a, err := d.adapters.remove(name)
		if err != nil {
			return nil, err
		}
		return json.Marshal(a.info())
	case opListAdapters:
		list := []adapterInfo{}
		for _, a := range d.adapters.snapshot() {
			list = append(list, a.info())
		}
		return json.Marshal(list)
	}
	return nil, &ci.Error{Verb: "ual.Client.Control", Status: ci.Unsupported,
		Detail: fmt.Sprintf("no operation %q; there are %s, %s and %s", operation, opAddAdapter, opRemoveAdapter,
			opListAdapters)}
}

func parseRequest(request []byte, v any) error {
	if err := json.Unmarshal(request, v); err != nil {
		return &ci.Error{Verb: "ual.Client.Control", Status: ci.InvalidParameter, Detail: "the request", Err: err}
	}
	return nil
}

// describe adds to the status of an adapter what the access layer does not know.
func (d *daemon) describe(a *accesslayer.Adapter, s *kproxy.AdapterStatus) {
	for _, x := range d.adapters.snapshot() {
		if x.hca.Info().GUID != a.GUID() {
			continue
		}
		s.Driver, s.Settings = x.driver.Name, x.settings
		c, ok := ci.As[portCounter](x.hca)
		if !ok {
			continue
		}
		for i := range s.Ports {
			p := &s.Ports[i]
			n := c.PortCount(p.Num)
			p.SentPackets, p.SentBytes = n.XmitPkts, n.XmitBytes
			p.ReceivedPackets, p.ReceivedBytes = n.RcvPkts, n.RcvBytes
		}
	}
}
