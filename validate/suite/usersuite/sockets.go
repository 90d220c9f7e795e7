package usersuite

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = requests.Case(validate.Case{
	ID: "user.hello.socket",
	Title: "sockets of a daemon: one that nobody listens on, one that is in use, a connection by its path, and " +
		"descriptors that are none",
	Run: helloSocket,
}, req.SAS2_4_06)

func helloSocket(t *validate.T) {
	s := newStage(t)
	path := "@ddk-validate-" + rand.Text()
	l, err := native.Listen(path)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("connections between processes need Linux")
	}
	kit.OK(t, err, "native.Listen")
	t.Cleanup(func() { l.Close() })
	_, err = native.Dial(path+"-other", time.Second)
	kit.True(t, err != nil, "native.Dial of a path that nobody listens on", "an error", "success")
	_, err = native.Listen(path)
	kit.True(t, err != nil, "native.Listen on a path that is in use", "an error", "success")
	client, err := native.Dial(path, t.Remaining())
	kit.OK(t, err, "native.Dial")
	conn, err := l.AcceptUnix()
	kit.OK(t, err, "net.UnixListener.AcceptUnix")
	daemon, err := native.NewConn(conn)
	kit.OK(t, err, "native.NewConn")
	s.serve(daemon)
	kit.Equal(t, "address of a connection by its path", client.Address(), path)
	x := &speaker{s: s, c: client, buf: make([]byte, schema.MaxMessage)}
	t.Cleanup(func() { client.Close() })
	kit.OK(t, x.do(schema.CmdHello, &good, &schema.HelloReply{}), "Hello of a connection by its path")

	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	kit.OK(t, err, "net.ListenPacket")
	f, err := u.(*net.UDPConn).File()
	kit.OK(t, err, "net.UDPConn.File")
	u.Close()
	_, err = native.FileConn(f)
	kit.True(t, err != nil, "native.FileConn of a UDP socket", "an error", "success")
	_, err = f.Stat()
	kit.True(t, errors.Is(err, os.ErrClosed), "the descriptor of a UDP socket after native.FileConn", "closed", "open")

	a, b, err := native.Pair()
	kit.OK(t, err, "native.Pair")
	t.Cleanup(func() { a.Close(); b.Close() })
	kit.Equal(t, "address of a connection without a path", a.Address(), "")
	err = a.Send([]byte("with a descriptor"), []*os.File{f})
	kit.True(t, err != nil, "native.Conn.Send with a descriptor that is closed", "an error", "success")
	kit.OK(t, a.Send([]byte("next"), nil), "native.Conn.Send")
	n, files, err := b.Recv(x.buf)
	kit.OK(t, err, "native.Conn.Recv")
	kit.Equal(t, "message after one that could not be sent", string(x.buf[:n]), "next")
	kit.Equal(t, "descriptors of a message without any", len(files), 0)
	kit.OK(t, a.CloseSend(), "native.Conn.CloseSend")
	_, _, err = b.Recv(x.buf)
	kit.True(t, errors.Is(err, io.EOF), "native.Conn.Recv after the end of the messages", "io.EOF", "%v", err)
}
