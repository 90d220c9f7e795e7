package ibsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/mad"
)

// control executes a control message, and makes it the response.
func (s *Server) control(c *control, from *net.UnixAddr) error {
	if c.typ == typeConnect {
		return s.connect(c, from)
	}
	s.mu.Lock()
	var k *client
	if c.client < uint32(len(s.clients)) {
		k = s.clients[c.client]
	}
	s.mu.Unlock()
	if k == nil || k.ctl.Name != from.Name {
		return fmt.Errorf("client %d is not connected from there", c.client)
	}
	data := &c.data
	port := k.port
	switch c.typ {
	case typeDisconnect:
		s.disconnect(k, "the client disconnected")
	case typeGetPort:
		i := port.Info()
		*data = [len(data)]byte{}
		binary.NativeEndian.PutUint16(data[0:], i.LID)
		data[2] = i.State
	case typeGetVendor:
		n := port.NodeInfo()
		*data = [len(data)]byte{}
		binary.NativeEndian.PutUint32(data[0:], n.VendorID)
		binary.NativeEndian.PutUint32(data[4:], uint32(n.DeviceID))
		binary.NativeEndian.PutUint32(data[8:], n.Revision)
	case typeGetGID:
		g := mad.GID(port.Info().GIDPrefix, port.NodeInfo().PortGUID)
		*data = [len(data)]byte{}
		copy(data[:], g[:])
	case typeGetGUID:
		*data = [len(data)]byte{}
		binary.BigEndian.PutUint64(data[:], port.NodeInfo().PortGUID)
	case typeGetNodeInfo:
		n := port.NodeInfo()
		*data = [len(data)]byte{}
		n.Put(data[:])
	case typeGetPortInfo:
		i, err := s.portInfo(port, int(data[0]))
		if err != nil {
			return err
		}
		i.Put(data[:])
	case typeSetSM:
		k.setManager(binary.NativeEndian.Uint32(data[0:]) != 0)
	case typeGetPKeys:
		*data = [len(data)]byte{}
		for i, key := range port.PKeys() {
			if 2*i < len(data) {
				binary.BigEndian.PutUint16(data[2*i:], uint16(key))
			}
		}
	default:
		return fmt.Errorf("unknown type %d", c.typ)
	}
	return nil
}

// portInfo returns the PortInfo of a port of a client's node; 0 is the client's own.
func (s *Server) portInfo(p *fabric.Port, num int) (mad.PortInfo, error) {
	if num != 0 && num != int(p.Num()) {
		other, err := s.fabric.Port(p.Node(), num)
		if err != nil {
			return mad.PortInfo{}, err
		}
		p = other
	}
	return p.Info(), nil
}

// errFull reports that no client number is free.
var errFull = errors.New("too many clients: raise Config.Clients, or stop a program")

// connect makes a process a client.
func (s *Server) connect(c *control, from *net.UnixAddr) error {
	process := binary.NativeEndian.Uint32(c.data[offProcess:])
	if from.Name != address(s.cfg.Name, ":ctl"+strconv.FormatUint(uint64(process), 10)).Name {
		return fmt.Errorf("process %d connects from the socket of another one", process)
	}
	name, _, _ := bytes.Cut(c.data[offNode:offNode+nodeNameLen], []byte{0})
	port, err := s.place(string(name))
	if err != nil {
		return err
	}
	s.sweep()
	s.mu.Lock()
	number := -1
	for i, k := range s.clients {
		if k == nil && number < 0 {
			number = i
		}
	}
	if s.closed || number < 0 {
		s.mu.Unlock()
		return errFull
	}
	k, err := newClient(s, number, process, from, port)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.clients[number] = k
	s.arm()
	s.mu.Unlock()
	k.start()
	k.setManager(binary.NativeEndian.Uint32(c.data[offManager:]) != 0)
	s.cfg.Log.Info("client connected", "client", number, "process", process, "node", port.Node(), "port", port.Num())
	binary.NativeEndian.PutUint32(c.data[offProcess:], uint32(number))
	if len(name) == 0 { // otherwise the client compares it with what it sent
		clear(c.data[offNode : offNode+nodeNameLen])
		copy(c.data[offNode:offNode+nodeNameLen-1], port.Node())
	}
	return nil
}

// place returns the port that a client attaches to: by ID or description, optionally with a port in brackets, by GUID,
// or the first adapter's.
func (s *Server) place(name string) (*fabric.Port, error) {
	if name == "" {
		if p := s.fabric.DefaultPort(); p != nil {
			return p, nil
		}
		return nil, errors.New("the fabric has no adapter with a link: set SIM_HOST to the name of a node")
	}
	p, err := s.fabric.Port(name, 0)
	if err == nil {
		return p, nil
	}
	if base, rest, ok := strings.Cut(name, "["); ok && strings.HasSuffix(rest, "]") {
		if num, convErr := strconv.Atoi(rest[:len(rest)-1]); convErr == nil {
			return s.fabric.Port(base, num)
		}
	}
	if guid, convErr := strconv.ParseUint(name, 0, 64); convErr == nil {
		if p := s.fabric.PortByGUID(ci.GUID(guid)); p != nil {
			return p, nil
		}
	}
	return nil, err
}

// disconnect removes a client. Its number is free when its socket is closed, since the name of the socket has the
// number.
func (s *Server) disconnect(k *client, why string) {
	s.mu.Lock()
	connected := s.clients[k.number] == k && !k.leaving
	k.leaving = true
	s.mu.Unlock()
	if !connected {
		return
	}
	s.cfg.Log.Info("client disconnected", "client", k.number, "process", k.process, "reason", why)
	k.close()
	s.mu.Lock()
	s.clients[k.number] = nil
	s.mu.Unlock()
}
