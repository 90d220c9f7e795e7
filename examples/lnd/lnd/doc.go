// Package lnd is an upper protocol on the access layer: the one by which Lustre's network (LNet) moves data over InfiniBand and RoCE.
package lnd
