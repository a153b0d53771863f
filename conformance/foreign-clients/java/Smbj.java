// Tests the server with the Java library smbj.
//
//   Smbj HOST PORT SHARE USER PASSWORD DIALECT signed|sealed STRANGERS-PORT
//
// The lane's relay checks the traffic at PORT. The logon with a wrong password uses STRANGERS-PORT.

import static com.hierynomus.mserref.NtStatus.*;

import com.hierynomus.msdtyp.AccessMask;
import com.hierynomus.mserref.NtStatus;
import com.hierynomus.msfscc.fileinformation.FileIdBothDirectoryInformation;
import com.hierynomus.mssmb2.SMB2CreateDisposition;
import com.hierynomus.mssmb2.SMB2Dialect;
import com.hierynomus.mssmb2.SMB2ShareAccess;
import com.hierynomus.mssmb2.SMBApiException;
import com.hierynomus.smbj.SMBClient;
import com.hierynomus.smbj.SmbConfig;
import com.hierynomus.smbj.auth.AuthenticationContext;
import com.hierynomus.smbj.connection.Connection;
import com.hierynomus.smbj.share.DiskShare;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

public class Smbj {
    static final int ENTRIES = 5000;
    static final int SIZE = 64 << 20;
    static final String FOLDER = "smbj";
    static final String NEEDLE = FOLDER + "\\anabranch-needle";
    static final String UNICODE = "Grüße Ω 日本 😀";
    static final Map<String, SMB2Dialect> DIALECTS = Map.of(
        "2.0.2", SMB2Dialect.SMB_2_0_2, "2.1", SMB2Dialect.SMB_2_1, "3.0", SMB2Dialect.SMB_3_0,
        "3.0.2", SMB2Dialect.SMB_3_0_2, "3.1.1", SMB2Dialect.SMB_3_1_1);

    interface Call {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        var config = SmbConfig.builder()
            .withDialects(DIALECTS.get(args[5]))
            .withSigningRequired(true)
            .withEncryptData(args[6].equals("sealed"))
            .withTimeout(60, TimeUnit.SECONDS)
            .build();
        try (var client = new SMBClient(config)) {
            try (Connection connection = client.connect(args[0], Integer.parseInt(args[7]))) {
                refused(STATUS_LOGON_FAILURE, "a wrong password", () -> connection.authenticate(
                    new AuthenticationContext(args[3], "wrong".toCharArray(), "")));
            }
            try (Connection connection = client.connect(args[0], Integer.parseInt(args[1]))) {
                var who = new AuthenticationContext(args[3], args[4].toCharArray(), "");
                var session = connection.authenticate(who);
                try (var share = (DiskShare) session.connectShare(args[2])) {
                    list(share);
                    share.mkdir(FOLDER);
                    thereAndBack(share);
                    refusals(share);
                    share.rm(FOLDER + "\\" + UNICODE);
                    share.rmdir(FOLDER, false);
                    must(!share.folderExists(FOLDER), "a removed folder is there");
                }
                session.close();
            }
        }
        System.exit(0);
    }

    static void list(DiskShare share) {
        Set<String> names = new HashSet<>();
        for (FileIdBothDirectoryInformation entry : share.list("many")) {
            must(names.add(entry.getFileName()), "twice: " + entry.getFileName());
        }
        names.removeAll(Set.of(".", ".."));
        must(names.size() == ENTRIES, names.size() + " entries");
        must(names.contains("entry-0000-ä") && names.contains("entry-4999-ä"), "the first or the last entry");
    }

    static com.hierynomus.smbj.share.File open(DiskShare share, String name, AccessMask access, SMB2CreateDisposition how) {
        return share.openFile(name, EnumSet.of(access), null, SMB2ShareAccess.ALL, how, null);
    }

    static void thereAndBack(DiskShare share) throws Exception {
        byte[] data = new byte[SIZE];
        for (int at = 0; at < SIZE; at++) {
            data[at] = (byte) ((at >> 16) ^ (at * 7));
        }
        try (var file = open(share, NEEDLE, AccessMask.GENERIC_ALL, SMB2CreateDisposition.FILE_CREATE)) {
            try (OutputStream out = file.getOutputStream()) {
                out.write(data);
            }
            file.flush();
            try (InputStream in = file.getInputStream()) {
                must(Arrays.equals(in.readAllBytes(), data), "other bytes came back");
            }
            file.rename(FOLDER + "\\" + UNICODE);
        }
        must(!share.fileExists(NEEDLE), "the old name is there");
        var about = share.getFileInformation(FOLDER + "\\" + UNICODE);
        must(about.getStandardInformation().getEndOfFile() == SIZE, "another size");
        must(share.list(FOLDER).stream().anyMatch(entry -> entry.getFileName().equals(UNICODE)), "another name");
    }

    static void refusals(DiskShare share) {
        refused(STATUS_OBJECT_NAME_NOT_FOUND, "a missing file", () -> open(share, NEEDLE, AccessMask.GENERIC_READ, SMB2CreateDisposition.FILE_OPEN));
        refused(STATUS_OBJECT_PATH_NOT_FOUND, "a missing directory", () -> open(share, FOLDER + "\\no\\file", AccessMask.GENERIC_READ, SMB2CreateDisposition.FILE_OPEN));
        refused(STATUS_OBJECT_NAME_COLLISION, "a file that exists", () -> open(share, FOLDER + "\\" + UNICODE, AccessMask.GENERIC_READ, SMB2CreateDisposition.FILE_CREATE));
        refused(STATUS_OBJECT_NAME_COLLISION, "a directory that exists", () -> share.mkdir(FOLDER));
        refused(STATUS_ACCESS_DENIED, "a file of somebody else", () -> open(share, "denied", AccessMask.GENERIC_READ, SMB2CreateDisposition.FILE_OPEN));
        refused(STATUS_DIRECTORY_NOT_EMPTY, "a directory with entries", () -> share.rmdir(FOLDER, false));
        refused(STATUS_FILE_IS_A_DIRECTORY, "a directory as a file", () -> open(share, FOLDER, AccessMask.GENERIC_READ, SMB2CreateDisposition.FILE_OPEN).read(new byte[1], 0));
    }

    static void refused(NtStatus status, String what, Call call) {
        try {
            call.run();
        } catch (SMBApiException error) {
            must(error.getStatus() == status, what + ": " + error);
            return;
        } catch (Exception error) {
            throw new AssertionError(what, error);
        }
        throw new AssertionError(what + " was not refused");
    }

    static void must(boolean is, String what) {
        if (!is) {
            throw new AssertionError(what);
        }
    }
}
