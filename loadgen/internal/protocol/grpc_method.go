package protocol

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"lapse/internal/hint"
)

const descriptorsHint = "make one of .proto files, with all that they import: protoc --include_imports " +
	"--descriptor_set_out=FILE, or buf build -o FILE"

// GRPCRequest finds a unary method in a descriptor set, a serialised google.protobuf.FileDescriptorSet, and encodes
// the message to call it with from its JSON; an empty text is the empty message. The method is "pkg.Service/Method",
// also with a leading slash or with a dot between the two. It returns the method in the first form. Errors say what
// is wrong with the method, the set or the message.
func GRPCRequest(method string, descriptors []byte, text string) (path string, message []byte, err error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(descriptors, &set); err != nil || len(set.File) == 0 {
		return "", nil, hint.Errorf(descriptorsHint, "the descriptor set cannot be read, or is empty")
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return "", nil, hint.Errorf(descriptorsHint, "the descriptor set is not whole: %w", err)
	}
	found, err := findMethod(files, method)
	if err != nil {
		return "", nil, err
	}
	if found.IsStreamingClient() || found.IsStreamingServer() {
		return "", nil, hint.Errorf("name a method with one request and one reply", "method %s streams", method)
	}
	message, err = encode(found.Input(), text, dynamicpb.NewTypes(files))
	return string(found.Parent().FullName()) + "/" + string(found.Name()), message, err
}

func findMethod(files *protoregistry.Files, method string) (protoreflect.MethodDescriptor, error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, _ := files.FindDescriptorByName(name)
	if m, ok := found.(protoreflect.MethodDescriptor); ok {
		return m, nil
	}
	known := unaryMethods(files)
	if len(known) == 0 {
		return nil, hint.Errorf(descriptorsHint, "the descriptor set has no unary method")
	}
	const shown = 8
	said := strings.Join(known[:min(shown, len(known))], ", ")
	if len(known) > shown {
		said += fmt.Sprintf(" and %d more", len(known)-shown)
	}
	return nil, hint.Errorf("it has "+said, "the descriptor set has no method %s", method)
}

func unaryMethods(files *protoregistry.Files) (names []string) {
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				if m := service.Methods().Get(j); !m.IsStreamingClient() && !m.IsStreamingServer() {
					names = append(names, string(service.FullName())+"/"+string(m.Name()))
				}
			}
		}
		return true
	})
	slices.Sort(names)
	return names
}

// encode returns a message of a type, from its JSON.
func encode(kind protoreflect.MessageDescriptor, text string, types *dynamicpb.Types) ([]byte, error) {
	m := dynamicpb.NewMessage(kind)
	if strings.TrimSpace(text) != "" {
		if err := (protojson.UnmarshalOptions{Resolver: types}).Unmarshal([]byte(text), m); err != nil {
			return nil, hint.Errorf("as in --grpc-message '"+example(kind)+"'", "the message is no %s in JSON: %w",
				kind.FullName(), err)
		}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the message: %w", err)
	}
	return b, nil
}

// example returns a message with the names of its first fields.
func example(kind protoreflect.MessageDescriptor) string {
	var fields []string
	for i := range min(3, kind.Fields().Len()) {
		fields = append(fields, fmt.Sprintf("%q: …", kind.Fields().Get(i).JSONName()))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
