"""Messages of pprof, push.v1 and querier.v1 as protoc knows them: wire.Profile, wire.PushRequest, wire.SelectSeriesResponse, ..."""
import subprocess

from google.protobuf import descriptor_pb2, message_factory

from harness import REPOSITORY


def classes():
    done = subprocess.run(["protoc", *(f"-I{REPOSITORY / folder}" for folder in ("core/proto", "tools/proto")), "--descriptor_set_out=/dev/stdout",
                           "pprof.proto", "push.proto", "querier.proto"], capture_output=True, check=True)
    files = descriptor_pb2.FileDescriptorSet.FromString(done.stdout).file
    return {name.rpartition(".")[2]: kind for name, kind in message_factory.GetMessages(files).items()}


globals().update(classes())
