// Package cm is the connection manager (IBTA volume 1, chapter 12).
package cm
