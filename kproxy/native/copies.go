package native

import (
	"os"

	"ciddk/internal/kproxy/schema"
)

// ServeCopies executes the copies that a daemon requests by a socket of schema.ServeCopies, until the daemon, or the
// end of the connection, closes the socket. do copies between data and the memory; its error fails the copy.
func ServeCopies(f *os.File, do func(c *schema.Copy, data []byte) error) {
	in, out := make([]byte, schema.CopySize+schema.MaxCopy+1), make([]byte, schema.CopyReplySize+schema.MaxCopy)
	for {
		n, err := f.Read(in)
		if err != nil {
			return
		}
		c, data, err := schema.ParseCopy(in[:n])
		if err != nil {
			return
		}
		reply := out[:schema.CopyReplySize]
		if c.Kind == schema.CopyRead {
			reply = out[:schema.CopyReplySize+c.Length]
			data = reply[schema.CopyReplySize:]
		}
		r := schema.CopyReply{ID: c.ID}
		if do(&c, data) != nil {
			r.Failed, reply = true, reply[:schema.CopyReplySize]
		}
		r.Append(reply[:0])
		if _, err := f.Write(reply); err != nil {
			return
		}
	}
}
