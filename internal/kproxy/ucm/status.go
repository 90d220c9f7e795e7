package ucm

import (
	"cmp"
	"fmt"
	"slices"
)

// describe returns a text for each ID that listens or has a connection, for status reports.
func (f *File) describe() (list []string) {
	u := f.front
	u.mu.Lock()
	defer u.mu.Unlock()
	var own []*id
	for _, x := range u.ids {
		if x.file == f {
			own = append(own, x)
		}
	}
	slices.SortFunc(own, func(a, b *id) int { return cmp.Compare(a.number, b.number) })
	for _, x := range own {
		if text := x.describeLocked(); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// describeLocked describes an ID that listens or has a connection. FrontEnd.mu is held.
func (x *id) describeLocked() string {
	local := x.cm.LocalAddr()
	if x.listens {
		return fmt.Sprintf("listener: %s %v", local.Network(), local)
	}
	if c := x.cm.Conn(); c != nil {
		return fmt.Sprintf("connection: %s %v to %v, %v, QP %#x", local.Network(), local, x.cm.RemoteAddr(), c.State(),
			uint32(x.qpn))
	}
	return ""
}
