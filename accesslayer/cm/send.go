package cm

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/mad"
)

// sendAndKeep sends a message and keeps it for resend. The caller holds c.mu.
func (c *conn) sendAndKeep(tid uint64, msg mad.CMMessage) {
	c.sent = encode(tid, msg)
	c.port.send(&c.to, c.sent)
}

// resend sends the last message again. Copies of answers are limited, because the peer may not have proved yet that it
// is where its messages claim to come from. The caller holds c.mu.
func (c *conn) resend() {
	if !c.active && c.state != StateDREQSent || c.state == StateTimeWait {
		c.port.reply(&c.to, padToSize(c.sent))
	} else {
		c.port.send(&c.to, c.sent)
	}
	c.m.count.resent.Add(1)
	if c.sentAttr() == mad.AttrMRA { // the peer's wait starts again
		c.setDue(c.giveUpTime(c.mraTime))
	}
}

// sentAttr returns the attribute of the message that resend sends, or 0 if there is none.
func (c *conn) sentAttr() uint16 {
	if c.sent == nil {
		return 0
	}
	return uint16(c.sent[16])<<8 | uint16(c.sent[17])
}

// sendREJ sends a REJ. The lengths of info and private have been checked. The caller holds c.mu.
func (c *conn) sendREJ(which mad.CMWhich, reason mad.RejReason, info, private []byte) {
	j := mad.REJ{LocalCommID: c.id, RemoteCommID: c.remoteID, Message: which, Reason: reason,
		InfoLength: uint8(len(info))}
	copy(j.Info[:], info)
	copy(j.PrivateData[:], private)
	c.sent = encode(c.tid, &j)
	c.port.reply(&c.to, c.sent)
}

// rejectTimeout sends a REJ with reason timeout. The peer may not have our communication ID. It finds the connection by
// our CA's GUID and its own ID (12.6.7.2). The caller holds c.mu.
func (c *conn) rejectTimeout(which mad.CMWhich) {
	guid := binary.BigEndian.AppendUint64(nil, uint64(c.port.id.CA))
	c.sendREJ(which, mad.RejTimeout, guid, nil)
}

// sendMRA sends an MRA. The connection then waits for the consumer as long as the peer waits. The caller holds c.mu.
func (c *conn) sendMRA(which mad.CMWhich, t mad.TimeExp, private []byte) {
	a := mad.MRA{LocalCommID: c.id, RemoteCommID: c.remoteID, Message: which, ServiceTimeout: t}
	copy(a.PrivateData[:], private)
	c.sent = encode(c.tid, &a)
	c.port.reply(&c.to, c.sent)
	c.state, c.mraTime = StateMRAREPSent, t
	if which == mad.WhichREQ {
		c.state = StateMRAREQSent
	}
	c.setDue(c.giveUpTime(t))
}

// checkPrivate returns InvalidParameter if private data is longer than room.
func checkPrivate(verb string, private []byte, room int) error {
	if len(private) > room {
		return invalid(verb, "%d bytes of private data, at most %d", len(private), room)
	}
	return nil
}

// checkInfo returns InvalidParameter if additional information is longer than its field.
func checkInfo(verb string, info []byte) error {
	if len(info) > mad.CMInfoLen {
		return invalid(verb, "%d bytes of additional information, at most %d", len(info), mad.CMInfoLen)
	}
	return nil
}

// checkMessage returns InvalidParameter if a value does not fit into its field of a message.
func checkMessage(verb string, msg mad.CMMessage) error {
	if err := msg.Check(); err != nil {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "a value does not fit into the message",
			Err: err}
	}
	return nil
}
