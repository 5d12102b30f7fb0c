// HAPI's HL7Service as a receiver: takes every message, writes its bytes to a file, answers AA or as it was asked to.
//
//   --port N            0 takes a free one; "listening N" is printed with the one that it has
//   --out FILE          each message as an MLLP block, in the order received
//   --answer A08=AE     messages with this trigger event are answered so; several times
//   --keystore FILE     PKCS 12 with the password below: TLS
//   --client-ca FILE    PEM: senders must show a certificate of this authority
//
// It ends when its standard input does.

import ca.uhn.hl7v2.AcknowledgmentCode;
import ca.uhn.hl7v2.DefaultHapiContext;
import ca.uhn.hl7v2.HL7Exception;
import ca.uhn.hl7v2.llp.MinLowerLayerProtocol;
import ca.uhn.hl7v2.model.Message;
import ca.uhn.hl7v2.parser.CanonicalModelClassFactory;
import ca.uhn.hl7v2.protocol.MetadataKeys;
import ca.uhn.hl7v2.protocol.ReceivingApplication;
import ca.uhn.hl7v2.util.StandardSocketFactory;
import ca.uhn.hl7v2.util.Terser;
import ca.uhn.hl7v2.util.idgenerator.InMemoryIDGenerator;
import ca.uhn.hl7v2.validation.impl.ValidationContextFactory;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

public class HapiReceiver {
    private static final char[] PASSWORD = "receiver".toCharArray();

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        Map<String, AcknowledgmentCode> answers = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            if (arguments[i].equals("--answer")) {
                String[] pair = arguments[i + 1].split("=");
                answers.put(pair[0], AcknowledgmentCode.valueOf(pair[1]));
            } else {
                options.put(arguments[i], arguments[i + 1]);
            }
        }
        var context = new DefaultHapiContext();
        context.setValidationContext(ValidationContextFactory.noValidation());
        context.getParserConfiguration().setIdGenerator(new InMemoryIDGenerator()); // else a file where it is started
        context.setModelClassFactory(new CanonicalModelClassFactory("2.5"));
        var protocol = new MinLowerLayerProtocol();
        protocol.setCharset(StandardCharsets.ISO_8859_1); // a character for each byte, and back
        context.setLowerLayerProtocol(protocol);
        var sockets = new Sockets(options.get("--keystore"), options.get("--client-ca"));
        context.setSocketFactory(sockets);
        try (var out = new FileOutputStream(options.get("--out"))) {
            var port = Integer.parseInt(options.getOrDefault("--port", "0"));
            var server = context.newServer(port, options.containsKey("--keystore"));
            server.registerApplication(new Application(out, answers));
            server.startAndWait();
            if (server.getServiceExitedWithException() != null) {
                throw new IOException(server.getServiceExitedWithException());
            }
            System.out.println("listening " + sockets.listening.port.get());
            System.in.readAllBytes();
            server.stopAndWait();
        }
        System.exit(0);
    }

    /** Takes every message. */
    record Application(OutputStream out, Map<String, AcknowledgmentCode> answers) implements ReceivingApplication<Message> {
        @Override
        public boolean canProcess(Message message) {
            return true;
        }

        @Override
        public Message processMessage(Message message, Map<String, Object> metadata) throws HL7Exception {
            var raw = (String) metadata.get(MetadataKeys.IN_RAW_MESSAGE);
            var code = answers.getOrDefault(new Terser(message).get("/MSH-9-2"), AcknowledgmentCode.AA);
            try {
                synchronized (out) {
                    out.write(("\u000b" + raw + "\u001c\r").getBytes(StandardCharsets.ISO_8859_1));
                    out.flush();
                }
                return message.generateACK(code, code == AcknowledgmentCode.AA ? null : new HL7Exception("as asked"));
            } catch (IOException error) {
                throw new HL7Exception(error);
            }
        }
    }

    /** A server socket that says which port it got once it is bound; with a context its connections are TLS. */
    static class Listening extends ServerSocket {
        final CompletableFuture<Integer> port = new CompletableFuture<>();
        private final SSLContext context;
        private final boolean mutual;

        Listening(SSLContext context, boolean mutual) throws IOException {
            this.context = context;
            this.mutual = mutual;
        }

        @Override
        public void bind(SocketAddress address, int backlog) throws IOException {
            super.bind(address, backlog);
            port.complete(getLocalPort());
        }

        @Override
        public Socket accept() throws IOException {
            var plain = super.accept();
            if (context == null) {
                return plain;
            }
            var secured = (SSLSocket) context.getSocketFactory().createSocket(plain, null, plain.getPort(), true);
            secured.setUseClientMode(false);
            secured.setNeedClientAuth(mutual);
            return secured;
        }
    }

    /** Hands out the one server socket, with a certificate of our own. */
    static class Sockets extends StandardSocketFactory {
        final Listening listening;
        private final String keystore;
        private final String clientCa;

        Sockets(String keystore, String clientCa) throws IOException, GeneralSecurityException {
            this.keystore = keystore;
            this.clientCa = clientCa;
            listening = new Listening(keystore == null ? null : context(), clientCa != null);
        }

        @Override
        public ServerSocket createServerSocket() {
            return listening;
        }

        @Override
        public ServerSocket createTlsServerSocket() {
            return listening;
        }

        private SSLContext context() throws IOException, GeneralSecurityException {
            var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            var own = KeyStore.getInstance("PKCS12");
            try (var file = new FileInputStream(keystore)) {
                own.load(file, PASSWORD);
            }
            keys.init(own, PASSWORD);
            TrustManager[] trusted = null;
            if (clientCa != null) {
                var known = KeyStore.getInstance("PKCS12");
                known.load(null, null);
                try (var file = new FileInputStream(clientCa)) {
                    known.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
                }
                var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                managers.init(known);
                trusted = managers.getTrustManagers();
            }
            var made = SSLContext.getInstance("TLS");
            made.init(keys.getKeyManagers(), trusted, null);
            return made;
        }
    }
}
