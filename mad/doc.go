// Package mad holds the layouts of management datagrams (IBTA volume 1, chapters 13 and 14): the common header, subnet management
// packets, and the attributes that every channel adapter answers. Integers are host numbers in the structures and big-endian in the
// bytes. A Parse never fails on content: a datagram has a fixed size, and what its values mean is for the agent to judge.
package mad
