package kit

import (
	"errors"
	"fmt"

	"ciddk/ci"
)

// Registrar is an access layer that only calls the driver. Register opens the HCA and calls Inside before it returns,
// as the contract of ci.Registrar allows. Deregister closes the HCA. A GUID can be registered once.
type Registrar struct {
	// Inside is called by Register with the CA just opened. It must destroy the objects that it creates.
	Inside  func(ca ci.CA) error
	OnEvent func(ci.Event)

	open map[ci.GUID]ci.CA
}

var _ ci.Registrar = (*Registrar)(nil)

// Register implements ci.Registrar.
func (r *Registrar) Register(h ci.HCA) error {
	guid := h.Info().GUID
	if r.open[guid] != nil {
		return &ci.Error{Verb: "Registrar.Register", Status: ci.ResourceBusy}
	}
	if r.OnEvent == nil {
		r.OnEvent = func(ci.Event) {}
	}
	ca, err := h.OpenCA(guid, r.OnEvent, r)
	if err != nil {
		return fmt.Errorf("HCA.OpenCA inside Register: %w", err)
	}
	if r.Inside != nil {
		if err := r.Inside(ca); err != nil {
			return errors.Join(err, ca.Destroy())
		}
	}
	if r.open == nil {
		r.open = map[ci.GUID]ci.CA{}
	}
	r.open[guid] = ca
	return nil
}

// Deregister implements ci.Registrar.
func (r *Registrar) Deregister(guid ci.GUID) error {
	ca := r.open[guid]
	if ca == nil {
		return &ci.Error{Verb: "Registrar.Deregister", Status: ci.NotFound}
	}
	delete(r.open, guid)
	return ca.Destroy()
}
