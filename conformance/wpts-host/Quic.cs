// Replaces the QUIC transport, which the runtime lacks: opening a connection fails.
using System;

namespace Microsoft.Protocols.TestTools.StackSdk.Transport
{
    internal class QuicClientTransport : TcpClientTransport
    {
        public QuicClientTransport(TransportConfig config, DecodePacketCallback decoder) : base(config, decoder) => throw new NotSupportedException("there is no QUIC here");
    }
    internal class QuicServerTransport : TcpServerTransport
    {
        public QuicServerTransport(TransportConfig config, DecodePacketCallback decoder) : base(config, decoder) => throw new NotSupportedException("there is no QUIC here");
    }
}
