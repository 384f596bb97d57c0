package truth

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// netfilter asks a network namespace's kernel for its nftables rules, over netlink. It does so with kube-proxy's own
// library: github.com/google/nftables does not ask for the generation, and reads the rules of one chain at a time.
type netfilter struct{ socket *nl.SocketHandle }

// openNetfilter opens the socket inside the namespace; from then on it can be used anywhere.
func openNetfilter(namespace string) (netfilter, error) {
	n := netfilter{&nl.SocketHandle{}}
	err := inNamespace(namespace, func() (err error) {
		if n.socket.Socket, err = nl.Subscribe(unix.NETLINK_NETFILTER); err != nil {
			return err
		}
		return n.socket.Socket.SetReceiveTimeout(&unix.Timeval{Sec: 5})
	})
	if err != nil {
		return n, fmt.Errorf("open netlink in %s: %w", namespace, err)
	}
	return n, nil
}

func (n netfilter) close() { n.socket.Close() }

// generation returns the number that rises with each change of the rules.
func (n netfilter) generation() (uint32, error) {
	replies, err := n.ask(unix.NFT_MSG_GETGEN, 0)
	if err != nil {
		return 0, err
	}
	for _, reply := range replies {
		for _, id := range within(body(reply), unix.NFTA_GEN_ID) {
			return binary.BigEndian.Uint32(id), nil
		}
	}
	return 0, errors.New("netfilter gives no generation")
}

// rules returns the rules of a table as netlink has them; none, if there is no such table.
func (n netfilter) rules(table string) ([][]byte, error) {
	return n.dump(unix.NFT_MSG_GETRULE, name(unix.NFTA_RULE_TABLE, table))
}

// values returns what the keys of a table's map lead to.
func (n netfilter) values(table, set string) (values [][]byte, err error) {
	rows, err := n.dump(unix.NFT_MSG_GETSETELEM, name(unix.NFTA_SET_ELEM_LIST_TABLE, table),
		name(unix.NFTA_SET_ELEM_LIST_SET, set))
	for _, row := range rows {
		values = append(values, valuesIn(row)...)
	}
	return values, err
}

func valuesIn(row []byte) [][]byte {
	return within(body(row), unix.NFTA_SET_ELEM_LIST_ELEMENTS, unix.NFTA_LIST_ELEM,
		unix.NFTA_SET_ELEM_DATA, unix.NFTA_DATA_VALUE)
}

// body returns a message without its header of family, version and resource.
func body(message []byte) []byte { return message[min(len(message), nl.SizeofNfgenmsg):] }

// within returns the values of attributes inside attributes, of these kinds from the outermost on.
func within(b []byte, kind uint16, inner ...uint16) (values [][]byte) {
	const flags = unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			break // cut off
		}
		value := b[unix.SizeofRtAttr:size]
		switch {
		case binary.NativeEndian.Uint16(b[2:])&^flags != kind:
		case len(inner) == 0:
			values = append(values, value)
		default:
			values = append(values, within(value, inner[0], inner[1:]...)...)
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return values
}

// dump asks until the rules did not change meanwhile.
func (n netfilter) dump(message int, attributes ...*nl.RtAttr) ([][]byte, error) {
	for {
		rows, err := n.ask(message, unix.NLM_F_DUMP, attributes...)
		switch {
		case errors.Is(err, nl.ErrDumpInterrupted):
		case errors.Is(err, unix.ENOENT):
			return nil, nil
		default:
			return rows, err
		}
	}
}

// ask sends one request and returns its replies.
func (n netfilter) ask(message, flags int, attributes ...*nl.RtAttr) ([][]byte, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, flags)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: n.socket}
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_IPV4})
	for _, a := range attributes {
		request.AddData(a)
	}
	return request.Execute(unix.NETLINK_NETFILTER, 0)
}

func name(kind int, text string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(text)) }
