package truth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"
)

// netfilter asks a network namespace's kernel for its nftables rules, over netlink.
type netfilter struct {
	fd       int
	sequence uint32
	buffer   []byte
}

// nfgenmsg is how long the header of each message's payload is: family, version, resource.
const nfgenmsg = 4

// openNetfilter opens the socket inside the namespace; from then on it can be used anywhere.
func openNetfilter(namespace string) (*netfilter, error) {
	n := &netfilter{buffer: make([]byte, 64<<10)}
	if err := inNamespace(namespace, n.open); err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", namespace, err)
	}
	return n, nil
}

func (n *netfilter) open() (err error) {
	n.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	return unix.SetsockoptTimeval(n.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
}

func (n *netfilter) close() { unix.Close(n.fd) }

// generation is the number that rises with each change of the rules.
func (n *netfilter) generation() (uint32, error) {
	replies, err := n.ask(unix.NFT_MSG_GETGEN, 0)
	if err != nil {
		return 0, err
	}
	for _, reply := range replies {
		for id := range within(reply[min(len(reply), nfgenmsg):], unix.NFTA_GEN_ID) {
			return binary.BigEndian.Uint32(id), nil
		}
	}
	return 0, errors.New("netfilter gives no generation")
}

// rules returns the rules of a table as netlink has them; none, if there is no such table.
func (n *netfilter) rules(table string) ([][]byte, error) {
	return n.dump(unix.NFT_MSG_GETRULE, attribute(unix.NFTA_RULE_TABLE, table))
}

// values returns what the keys of a table's map lead to.
func (n *netfilter) values(table, set string) (values [][]byte, err error) {
	rows, err := n.dump(unix.NFT_MSG_GETSETELEM, append(attribute(unix.NFTA_SET_ELEM_LIST_TABLE, table), attribute(unix.NFTA_SET_ELEM_LIST_SET, set)...))
	for _, row := range rows {
		values = append(values, valuesIn(row)...)
	}
	return values, err
}

func valuesIn(row []byte) (values [][]byte) {
	if len(row) < nfgenmsg {
		return nil
	}
	for element := range within(row[nfgenmsg:], unix.NFTA_SET_ELEM_LIST_ELEMENTS, unix.NFTA_LIST_ELEM, unix.NFTA_SET_ELEM_DATA, unix.NFTA_DATA_VALUE) {
		values = append(values, element)
	}
	return values
}

// within yields the values of attributes inside attributes, of these kinds from the outermost on.
func within(b []byte, kind uint16, inner ...uint16) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) >= 4 {
			size := int(binary.NativeEndian.Uint16(b))
			if size < 4 || size > len(b) {
				return
			}
			const mask = 0x3fff // without the flags for nested and for network order
			if value := b[4:size]; binary.NativeEndian.Uint16(b[2:])&mask == kind {
				if len(inner) == 0 && !yield(value) {
					return
				}
				if len(inner) > 0 {
					for v := range within(value, inner[0], inner[1:]...) {
						if !yield(v) {
							return
						}
					}
				}
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

func (n *netfilter) dump(message uint16, attributes []byte) ([][]byte, error) {
	for {
		rows, err := n.ask(message, unix.NLM_F_DUMP, attributes...)
		switch {
		case errors.Is(err, unix.EINTR): // the rules changed meanwhile
		case errors.Is(err, unix.ENOENT):
			return nil, nil
		default:
			return rows, err
		}
	}
}

// ask sends one request and returns the payloads of its replies.
func (n *netfilter) ask(message, flags uint16, attributes ...byte) ([][]byte, error) {
	n.sequence++
	request := make([]byte, 0, 64)
	request = binary.NativeEndian.AppendUint32(request, uint32(20+len(attributes)))
	request = binary.NativeEndian.AppendUint16(request, unix.NFNL_SUBSYS_NFTABLES<<8|message)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|flags)
	request = binary.NativeEndian.AppendUint32(request, n.sequence)
	request = binary.NativeEndian.AppendUint32(request, 0)
	request = append(request, unix.NFPROTO_IPV4, 0, 0, 0) // as long as nfgenmsg
	request = append(request, attributes...)
	if err := unix.Sendto(n.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	return n.replies()
}

func (n *netfilter) replies() (payloads [][]byte, err error) {
	for {
		size, _, failed := unix.Recvfrom(n.fd, n.buffer, 0)
		if errors.Is(failed, unix.EINTR) {
			continue // a signal of the Go runtime
		}
		if failed != nil {
			return nil, failed
		}
		messages, failed := syscall.ParseNetlinkMessage(n.buffer[:size])
		if failed != nil {
			return nil, failed
		}
		for _, m := range messages {
			if m.Header.Seq != n.sequence { // of a request that was given up
				continue
			}
			if m.Header.Flags&unix.NLM_F_DUMP_INTR != 0 {
				err = unix.EINTR
			}
			switch {
			case m.Header.Type == unix.NLMSG_ERROR:
				return nil, syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			case m.Header.Type == unix.NLMSG_DONE:
				return payloads, err
			}
			payloads = append(payloads, append([]byte(nil), m.Data...))
			if m.Header.Flags&unix.NLM_F_MULTI == 0 {
				return payloads, err
			}
		}
	}
}

// attribute is a name as netlink wants it: length, type, text, a zero, padding.
func attribute(kind uint16, text string) []byte {
	a := binary.NativeEndian.AppendUint16(nil, uint16(4+len(text)+1))
	a = binary.NativeEndian.AppendUint16(a, kind)
	a = append(append(a, text...), 0)
	for len(a)%4 != 0 {
		a = append(a, 0)
	}
	return a
}
